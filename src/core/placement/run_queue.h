// SPDX-License-Identifier: Apache-2.0
// Queue of runs: decides which run starts now, and on which device, and observes what runs beside each run. A manager,
// a node's module service and the simulator use the same class; events go in, actions come out. Page: docs/placement.md
//
//   Submit ──▶ waiting ──▶ running ──▶ Done
//                 │  ▲         │ its device is lost: back to the front
//                 │  └─────────┘
//                 └──▶ refused: no device that it may use has that much memory
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/placement/company.h"
#include "core/placement/placement_table.h"

namespace weir::core {

/// A decision about a waiting run.
struct RunAction {
  enum class Kind : std::uint8_t { kStart, kRefuse };
  Kind kind = Kind::kStart;
  RunId run{};
  PlacementChoice choice{};  // for kStart the device, for kRefuse the reason
};

/// What a run asks for.
struct RunWish {
  RunNeed need{};
  std::string device{};  // the name of the only device that it may use; empty: any device
};

/// How a device was lost, and what happens to its runs.
struct DeviceLoss {
  bool returns = false;               // a run that only this device can hold waits for it and is not refused
  bool alone = false;                 // when its runs run again, each gets an idle device and all memory of it
  std::span<const RunId> ended = {};  // runs on it that end now; the others run again
};

class RunQueue {
 public:
  static constexpr std::size_t kWaitingMax = 1'000'000;
  static constexpr std::size_t kReturningMax = 100'000;

  explicit RunQueue(std::unique_ptr<Placement> placement) : placement_(std::move(placement)) {}

  // In all functions `now` is never earlier than in the call before.

  /// Adds a device, on which waiting runs may start at once. Errors as in ClusterState::Add.
  Status AddDevice(Instant now, DeviceId device, const std::string& name, const DeviceCapacity& capacity,
                   std::vector<RunAction>& actions);
  /// Puts the device's runs back at the front of the queue, in the order of their ids. Error: kNotFound.
  Status LoseDevice(Instant now, DeviceId device, const DeviceLoss& loss, std::vector<RunAction>& actions);
  /// First come, first served: while a run waits for room on any device, all later runs wait too; while a run waits for
  /// a device that it names, later runs that name the same device wait. A run that waits for the return of a lost
  /// device delays no other. Errors: kAlreadyExists for a run that runs or
  /// waits, kResourceExhausted if kWaitingMax runs wait, kInvalidArgument (CheckNeed).
  Status Submit(Instant now, RunId run, const RunWish& wish, std::vector<RunAction>& actions);
  /// Records a run that already runs on the device, as found by a restarted manager. Errors as in ClusterState::Place.
  Status Resume(Instant now, RunId run, const RunWish& wish, DeviceId device);
  /// Removes a waiting or running run; the placement learns nothing from it. Error: kNotFound.
  Status Withdraw(Instant now, RunId run, std::vector<RunAction>& actions);
  /// Removes a completed run. A placement with a model learns from it if `seen` contains a slowdown. Error: kNotFound.
  Status Done(Instant now, RunId run, const RunSeen& seen, std::vector<RunAction>& actions);

  /// What has run beside a running run since it started. `slowdown` is that of the result. Empty for any other run.
  [[nodiscard]] RunSeen Beside(Instant now, RunId run, double slowdown = 0);
  [[nodiscard]] const ClusterState& cluster() const { return cluster_; }
  [[nodiscard]] Placement& placement() { return *placement_; }
  /// What the placement has learned; null: it does not learn.
  [[nodiscard]] const InterferenceModel* model() const { return placement_->model(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// Runs that wait for the device of that name alone.
  [[nodiscard]] std::size_t WaitingFor(const std::string& name) const;

 private:
  struct Waiting {
    RunId run{};
    RunWish wish{};
    bool alone = false;
  };
  struct Running {
    RunWish wish{};
    Company company{};
  };
  struct Device {
    std::string name{};
    Instant since{};  // time up to which the company of its runs is accounted
  };

  PlacementChoice Choose(const Waiting& run);
  /// The device of a run that names its device or has to run alone.
  PlacementChoice ChooseAmong(const Waiting& run) const;
  /// Starts or refuses waiting runs in their order, as far as possible.
  void StartWhatFits(Instant now, std::vector<RunAction>& actions);
  /// Whether a lost device that will return is large enough, and is the one that the run names, if it names one.
  [[nodiscard]] bool WillHold(const RunWish& wish) const;
  void PutOn(Instant now, const Waiting& run, DeviceId device);
  Status TakeOff(Instant now, RunId run);
  /// Records what has run together on the device since its `since`. To be called before its runs change.
  void Account(Instant now, DeviceId device);

  std::unique_ptr<Placement> placement_;
  ClusterState cluster_;
  std::map<DeviceId, Device> devices_;
  std::unordered_map<RunId, Running> running_;
  std::deque<Waiting> waiting_;
  std::unordered_set<RunId> waiting_ids_;
  bool held_up_ = false;                         // a run waits for room on any device, and those behind it can't start
  std::multimap<std::string, Bytes> returning_;  // memory of the lost devices that will return, by name
};

}  // namespace weir::core
