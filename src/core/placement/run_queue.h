// SPDX-License-Identifier: Apache-2.0
// Runs as they come, wait and go: who is started where, now. The manager and the simulator drive the same object;
// events in, actions out. Page: docs/placement.md
//
//   Submit ──▶ waiting ──▶ running ──▶ Done
//                 │  ▲         │ its device is lost: back to the front
//                 │  └─────────┘
//                 └──▶ refused: no device there is has that much memory
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
  PlacementChoice choice{};  // of kStart the device; of kRefuse the reason
};

class RunQueue {
 public:
  static constexpr std::size_t kWaitingMax = 1'000'000;

  explicit RunQueue(std::unique_ptr<Placement> placement) : placement_(std::move(placement)) {}

  Status AddDevice(DeviceId device, const DeviceCapacity& capacity, std::vector<RunAction>& actions);
  /// Its runs go back to the front of those that wait, in the order of their ids. kNotFound.
  Status LoseDevice(DeviceId device, std::vector<RunAction>& actions);
  /// First come, first served: while the first one waits for room, those behind it wait, too. kAlreadyExists for a run
  /// that is running or waits, kResourceExhausted when kWaitingMax wait, kInvalidArgument (CheckNeed).
  Status Submit(RunId run, const RunNeed& need, std::vector<RunAction>& actions);
  /// It runs there already: what a manager that starts again finds. As ClusterState::Place.
  Status Resume(RunId run, const RunNeed& need, DeviceId device);
  /// It waits or runs no more, and nothing is learned. kNotFound.
  Status Withdraw(RunId run, std::vector<RunAction>& actions);
  /// The model of the placement learns from it, where it has one. kNotFound.
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
