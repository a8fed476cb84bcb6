// SPDX-License-Identifier: Apache-2.0
// Queue of runs: decides which run starts now, and on which device. The manager and the simulator use the same object;
// events go in, actions come out. Page: docs/placement.md
//
//   Submit ──▶ waiting ──▶ running ──▶ Done
//                 │  ▲         │ its device is lost: back to the front
//                 │  └─────────┘
//                 └──▶ refused: no present device has that much memory
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "core/placement/company.h"
#include "core/placement/placement_table.h"

namespace weir::core {

struct RunAction {
  enum class Kind : std::uint8_t { kStart, kRefuse };
  Kind kind = Kind::kStart;
  RunId run{};
  PlacementChoice choice{};  // for kStart the device, for kRefuse the reason
};

class RunQueue {
 public:
  static constexpr std::size_t kWaitingMax = 1'000'000;

  explicit RunQueue(std::unique_ptr<Placement> placement) : placement_(std::move(placement)) {}

  Status AddDevice(DeviceId device, const DeviceCapacity& capacity, std::vector<RunAction>& actions);
  /// Puts the device's runs back at the front of the queue, in the order of their ids. Error: kNotFound.
  Status LoseDevice(DeviceId device, std::vector<RunAction>& actions);
  /// First come, first served: while the first run waits for room, all later runs wait too. Errors: kAlreadyExists for
  /// a run that runs or waits, kResourceExhausted if kWaitingMax runs wait, kInvalidArgument (CheckNeed).
  Status Submit(RunId run, const RunNeed& need, std::vector<RunAction>& actions);
  /// Records a run that already runs on the device, as found by a restarted manager. Errors as in ClusterState::Place.
  Status Resume(RunId run, const RunNeed& need, DeviceId device);
  /// Removes a waiting or running run without learning from it. Error: kNotFound.
  Status Withdraw(RunId run, std::vector<RunAction>& actions);
  /// Removes a completed run. A placement with a model learns from it. Error: kNotFound.
  Status Done(RunId run, const RunSeen& seen, std::vector<RunAction>& actions);

  [[nodiscard]] const ClusterState& cluster() const { return cluster_; }
  [[nodiscard]] Placement& placement() { return *placement_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    RunId run;
    RunNeed need;
  };
  void StartWhatFits(std::vector<RunAction>& actions);

  std::unique_ptr<Placement> placement_;
  ClusterState cluster_;
  std::deque<Waiting> waiting_;
  std::set<RunId> waiting_ids_;
};

}  // namespace weir::core
