// SPDX-License-Identifier: Apache-2.0
// State of a cluster: its devices, the runs on them, and what is reserved. It accepts or refuses a run on a device; a
// placement chooses the device (placement_table.h). Devices of equal state form one group, so that a decision examines
// each state once rather than each device. Page: docs/placement.md
#pragma once

#include <array>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/placement/load.h"

namespace weir::core {

class ClusterState {
 public:
  /// Adds a device without runs. Errors: kAlreadyExists; kInvalidArgument (CheckDevice, or an id of 0).
  Status Add(DeviceId device, const DeviceCapacity& capacity);
  /// Removes a device and returns the runs on it, ascending. Error: kNotFound.
  Result<std::vector<RunId>> Remove(DeviceId device);

  /// Assigns the run to the device. Errors: kAlreadyExists if the run is on a device already; kNotFound for an unknown
  /// device; kResourceExhausted if memory or the number of runs is exhausted; kInvalidArgument (CheckNeed, or an id of
  /// 0).
  Status Place(RunId run, const RunNeed& need, DeviceId device);
  /// Takes the run off its device. Error: kNotFound.
  Status Release(RunId run);

  /// Devices of one state.
  struct Group {
    DeviceState state{};
    DeviceId lowest{};  // 0: the group is empty and its state meaningless
  };
  /// All groups, in no particular order. Each state of a device occurs once.
  [[nodiscard]] std::span<const Group> groups() const { return groups_; }
  [[nodiscard]] const std::set<DeviceId>& MembersOf(const Group& group) const {
    return members_[static_cast<std::size_t>(&group - groups_.data())];
  }
  [[nodiscard]] const DeviceCapacity& CapacityOf(const DeviceState& state) const { return kinds_[state.kind]; }

  /// The need of the runs of a kind. Its `memory` is unused.
  [[nodiscard]] const RunNeed& KindOf(std::uint32_t kind) const { return run_kinds_[kind].need; }
  using NeighboursRoom = std::array<Neighbours, kKindsMax>;
  /// The runs on a device of that state, stored in `room`.
  [[nodiscard]] std::span<const Neighbours> NeighboursOf(const DeviceState& state, NeighboursRoom& room) const {
    std::size_t kinds = 0;
    for (; kinds < kKindsMax && state.by_kind[kinds].runs > 0; ++kinds)
      room[kinds] = {&KindOf(state.by_kind[kinds].kind), state.by_kind[kinds].runs};
    return std::span(room).first(kinds);
  }

  /// The first device after `after`, in the order of ids and wrapping around to `after` itself, for which
  /// `takes(state)` is true; none if there is no such device.
  template <typename Takes>
  [[nodiscard]] DeviceId NextAfter(DeviceId after, Takes takes) const {
    // Usually one of the next few devices accepts. If they are full, a walk over groups is faster than over devices.
    constexpr int kTried = 4;
    auto at = devices_.upper_bound(after);
    for (int tried = 0; tried < kTried && at != devices_.end(); ++tried, ++at)
      if (takes(groups_[at->second.group].state)) return at->first;
    DeviceId next, lowest;
    for (const Group& group : groups_) {
      if (!group.lowest || !takes(group.state)) continue;
      if (!lowest || group.lowest < lowest) lowest = group.lowest;
      const auto member = MembersOf(group).upper_bound(after);
      if (member != MembersOf(group).end() && (!next || *member < next)) next = *member;
    }
    return next ? next : lowest;
  }

  [[nodiscard]] std::size_t devices() const { return devices_.size(); }
  [[nodiscard]] std::size_t runs() const { return runs_.size(); }
  /// Null for an unknown device.
  [[nodiscard]] const DeviceState* StateOf(DeviceId device) const;
  [[nodiscard]] const RunNeed* NeedOf(RunId run) const;
  /// 0: the run is on no device.
  [[nodiscard]] DeviceId DeviceOf(RunId run) const;
  /// Ascending.
  [[nodiscard]] std::vector<RunId> RunsOn(DeviceId device) const;
  /// False if no device could take the run even when empty.
  [[nodiscard]] bool EverHolds(const RunNeed& need) const;

 private:
  struct Device {
    std::uint32_t group = 0;
    std::vector<RunId> runs;
  };
  struct Placed {
    DeviceId device;
    RunNeed need;
    std::uint32_t as = 0;  // number of the run's kind
  };
  struct RunKind {
    RunNeed need{};
    std::uint32_t runs = 0;  // number of runs of this kind; 0: the entry is free
  };
  struct KindHash {
    std::size_t operator()(const RunNeed& need) const noexcept;
  };
  struct StateHash {
    std::size_t operator()(const DeviceState& state) const noexcept;
  };

  /// Adds a run to a kind, and returns the kind's number: the run's own kind if the state has a free entry for it, else
  /// the present kind with the most similar time alone.
  std::uint32_t CountAs(const RunNeed& need, const DeviceState& state);
  /// Removes a run from a kind. A kind without runs is free for reuse.
  void GiveBackKind(std::uint32_t kind);
  /// Puts the device into the group of that state.
  void Join(DeviceId id, Device& device, const DeviceState& state);
  /// Takes the device out of its group.
  void Leave(DeviceId id, const Device& device);

  std::vector<DeviceCapacity> kinds_;      // each capacity once
  std::vector<std::uint32_t> kind_sizes_;  // number of devices of each capacity
  std::vector<RunKind> run_kinds_{1};      // by number; 0 is unused
  std::vector<std::uint32_t> free_kinds_;
  std::unordered_map<RunNeed, std::uint32_t, KindHash> kind_of_;
  std::vector<Group> groups_;
  std::vector<std::set<DeviceId>> members_;  // of each group
  std::vector<std::uint32_t> free_;          // empty groups, for reuse
  std::unordered_map<DeviceState, std::uint32_t, StateHash> group_of_;
  std::map<DeviceId, Device> devices_;
  std::unordered_map<RunId, Placed> runs_;
};

}  // namespace weir::core
