// SPDX-License-Identifier: Apache-2.0
// What runs where in a cluster: devices, the runs on them, what is reserved. Says yes or no; who goes where is a
// placement's (placement_table.h). Devices of equal state lie in one group, so that a decision looks at each state once
// and not at each device. Page: docs/placement.md
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
  /// kAlreadyExists, kInvalidArgument (CheckDevice; an id of 0).
  Status Add(DeviceId device, const DeviceCapacity& capacity);
  /// The device is gone; returns what ran there, ascending. kNotFound.
  Result<std::vector<RunId>> Remove(DeviceId device);

  /// The run is on that device from now on. kAlreadyExists: it is somewhere; kNotFound: no such device;
  /// kResourceExhausted: not enough memory, or as many runs as the device takes; kInvalidArgument (CheckNeed; an id of
  /// 0).
  Status Place(RunId run, const RunNeed& need, DeviceId device);
  /// kNotFound.
  Status Release(RunId run);

  /// Devices of one state.
  struct Group {
    DeviceState state{};
    DeviceId lowest{};  // 0: there is none; its state says nothing
  };
  /// In no order; each state once.
  [[nodiscard]] std::span<const Group> groups() const { return groups_; }
  [[nodiscard]] const std::set<DeviceId>& MembersOf(const Group& group) const {
    return members_[static_cast<std::size_t>(&group - groups_.data())];
  }
  [[nodiscard]] const DeviceCapacity& CapacityOf(const DeviceState& state) const { return kinds_[state.kind]; }

  /// Its memory says nothing.
  [[nodiscard]] const RunNeed& KindOf(std::uint32_t kind) const { return run_kinds_[kind].need; }
  using NeighboursRoom = std::array<Neighbours, kKindsTold>;
  /// What runs on a device of that state, in `room`.
  [[nodiscard]] std::span<const Neighbours> NeighboursOf(const DeviceState& state, NeighboursRoom& room) const {
    std::size_t kinds = 0;
    for (; kinds < kKindsTold && state.told[kinds].runs > 0; ++kinds)
      room[kinds] = {&KindOf(state.told[kinds].kind), state.told[kinds].runs};
    return std::span(room).first(kinds);
  }

  /// The first device after `after` in the order of ids, and round to `after` itself, for which `takes(state)` is true;
  /// none: no device.
  template <typename Takes>
  [[nodiscard]] DeviceId NextAfter(DeviceId after, Takes takes) const {
    // Mostly one of the next few does. Where they are full all groups tell sooner than all devices.
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
  /// None: there is no such device.
  [[nodiscard]] const DeviceState* StateOf(DeviceId device) const;
  [[nodiscard]] const RunNeed* NeedOf(RunId run) const;
  /// 0: it is nowhere.
  [[nodiscard]] DeviceId DeviceOf(RunId run) const;
  /// Ascending.
  [[nodiscard]] std::vector<RunId> RunsOn(DeviceId device) const;
  /// False: no device would take it if nothing else ran there.
  [[nodiscard]] bool EverHolds(const RunNeed& need) const;

 private:
  struct Device {
    std::uint32_t group = 0;
    std::vector<RunId> runs;
  };
  struct Placed {
    DeviceId device;
    RunNeed need;
    std::uint32_t as = 0;  // the kind that it counts as
  };
  struct RunKind {
    RunNeed need{};
    std::uint32_t runs = 0;  // that count as it; 0: its number is free
  };
  struct KindHash {
    std::size_t operator()(const RunNeed& need) const noexcept;
  };
  struct StateHash {
    std::size_t operator()(const DeviceState& state) const noexcept;
  };

  std::uint32_t CountAs(const RunNeed& need, const DeviceState& state);
  void GiveBackKind(std::uint32_t kind);
  void Join(DeviceId id, Device& device, const DeviceState& state);
  void Leave(DeviceId id, const Device& device);

  std::vector<DeviceCapacity> kinds_;      // each once
  std::vector<std::uint32_t> kind_sizes_;  // devices of each
  std::vector<RunKind> run_kinds_{1};      // by number; 0 is none
  std::vector<std::uint32_t> free_kinds_;
  std::unordered_map<RunNeed, std::uint32_t, KindHash> kind_of_;
  std::vector<Group> groups_;
  std::vector<std::set<DeviceId>> members_;  // of each group
  std::vector<std::uint32_t> free_;          // groups without devices, for new states
  std::unordered_map<DeviceState, std::uint32_t, StateHash> group_of_;
  std::map<DeviceId, Device> devices_;
  std::unordered_map<RunId, Placed> runs_;
};

}  // namespace weir::core
