// SPDX-License-Identifier: Apache-2.0
#include "core/placement/cluster_state.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rapidcheck/state.h>

#include <algorithm>

namespace weir::core {
namespace {

DeviceCapacity Capacity(std::uint64_t mib, std::uint32_t runs_max) {
  return {.memory = MiB(mib), .runs_max = runs_max, .loads = {100, 100, 100, 100}};
}
/// Needs of seven kinds.
RunNeed Need(std::uint64_t mib) { return {MiB(mib), {1, 2, 3, 4}, 10 + mib % 7}; }

TEST(ClusterState, TakesNoMoreThanTheMemoryAndTheRunsOfADevice) {
  ClusterState cluster;
  ASSERT_TRUE(cluster.Add(DeviceId{1}, Capacity(100, 2)));
  ASSERT_TRUE(cluster.Place(RunId{1}, Need(60), DeviceId{1}));
  EXPECT_EQ(cluster.Place(RunId{2}, Need(41), DeviceId{1}).error().code, Errc::kResourceExhausted);
  ASSERT_TRUE(cluster.Place(RunId{2}, Need(40), DeviceId{1}));
  ASSERT_TRUE(cluster.Release(RunId{1}));
  ASSERT_TRUE(cluster.Place(RunId{3}, Need(0), DeviceId{1}));
  EXPECT_EQ(cluster.Place(RunId{4}, Need(0), DeviceId{1}).error().code, Errc::kResourceExhausted);
}

TEST(ClusterState, RefusesInWordsAndChangesNothing) {
  ClusterState cluster;
  ASSERT_TRUE(cluster.Add(DeviceId{1}, Capacity(100, 4)));
  ASSERT_TRUE(cluster.Place(RunId{1}, Need(10), DeviceId{1}));
  const DeviceState before = *cluster.StateOf(DeviceId{1});
  EXPECT_EQ(cluster.Add(DeviceId{1}, Capacity(1, 1)).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(cluster.Add(DeviceId{}, Capacity(1, 1)).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(cluster.Add(DeviceId{2}, Capacity(1, 0)).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(cluster.Add(DeviceId{2}, Capacity(1, kRunsAtOnceMax + 1)).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(cluster.Place(RunId{1}, Need(10), DeviceId{1}).error().message, "run 1 is on device 1 already");
  EXPECT_EQ(cluster.Place(RunId{2}, Need(10), DeviceId{2}).error().code, Errc::kNotFound);
  EXPECT_EQ(cluster.Place(RunId{}, Need(10), DeviceId{1}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(cluster.Place(RunId{2}, {MiB(1), {kLoadMax + 1, 0, 0, 0}, 1}, DeviceId{1}).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(cluster.Place(RunId{2}, {MiB(1), {}, 0}, DeviceId{1}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(cluster.Release(RunId{2}).error().code, Errc::kNotFound);
  EXPECT_EQ(cluster.Remove(DeviceId{2}).error().code, Errc::kNotFound);
  EXPECT_EQ(*cluster.StateOf(DeviceId{1}), before);
  EXPECT_EQ(cluster.devices(), 1U);
}

TEST(ClusterState, ADevicesLargestLoadsDoNotOverflow) {
  ClusterState cluster;
  ASSERT_TRUE(cluster.Add(DeviceId{1}, {.memory = Bytes{~std::uint64_t{0}}, .runs_max = kRunsAtOnceMax}));
  const RunNeed most{Bytes{1}, {kLoadMax, kLoadMax, kLoadMax, kLoadMax}, kAloneMaxMs};
  for (std::uint64_t id = 1; id <= kRunsAtOnceMax; ++id) ASSERT_TRUE(cluster.Place(RunId{id}, most, DeviceId{1}));
  EXPECT_EQ(cluster.StateOf(DeviceId{1})->run_ms, kRunsAtOnceMax * kAloneMaxMs);
  EXPECT_EQ(cluster.StateOf(DeviceId{1})->by_kind[0].runs, kRunsAtOnceMax);
}

TEST(ClusterState, ExcessKindsCountAsTheNearestKind) {
  ClusterState cluster;
  ASSERT_TRUE(cluster.Add(DeviceId{1}, Capacity(100, 16)));
  for (std::uint64_t id = 1; id <= kKindsMax; ++id)
    ASSERT_TRUE(cluster.Place(RunId{id}, {{}, {}, 100 * id}, DeviceId{1}));
  const DeviceState before = *cluster.StateOf(DeviceId{1});
  ASSERT_TRUE(cluster.Place(RunId{50}, {{}, {}, 320}, DeviceId{1}));
  ClusterState::NeighboursRoom room;
  for (const Neighbours& some : cluster.NeighboursOf(*cluster.StateOf(DeviceId{1}), room))
    EXPECT_EQ(some.runs, some.need->alone_ms == 300 ? 2U : 1U) << some.need->alone_ms;
  // The run whose kind it counts as ends first.
  ASSERT_TRUE(cluster.Release(RunId{3}));
  ASSERT_TRUE(cluster.Place(RunId{51}, {{}, {}, 300}, DeviceId{1}));
  ASSERT_TRUE(cluster.Release(RunId{50}));
  EXPECT_EQ(*cluster.StateOf(DeviceId{1}), before);
}

TEST(ClusterState, RemovingADeviceReturnsItsRuns) {
  ClusterState cluster;
  ASSERT_TRUE(cluster.Add(DeviceId{1}, Capacity(100, 4)));
  ASSERT_TRUE(cluster.Add(DeviceId{2}, Capacity(100, 4)));
  for (const std::uint64_t id : {7, 3, 5}) ASSERT_TRUE(cluster.Place(RunId{id}, Need(1), DeviceId{id == 3 ? 2U : 1U}));
  EXPECT_EQ(cluster.Remove(DeviceId{1}).value(), (std::vector{RunId{5}, RunId{7}}));
  EXPECT_EQ(cluster.runs(), 1U);
  EXPECT_TRUE(cluster.EverHolds(Need(100)));
  ASSERT_TRUE(cluster.Remove(DeviceId{2}));
  EXPECT_FALSE(cluster.EverHolds(Need(100)));
}

// -- Laws, against lists of runs -------------------------------------------------------------------------------------

struct ListedCluster {
  struct Device {
    DeviceCapacity capacity;
    std::map<RunId, RunNeed> runs;
  };
  std::map<DeviceId, Device> devices;

  [[nodiscard]] bool Has(RunId run) const {
    return std::ranges::any_of(devices, [run](const auto& one) { return one.second.runs.contains(run); });
  }
  [[nodiscard]] bool Takes(const Device& device, const RunNeed& need) const {
    std::uint64_t used = need.memory.count;
    for (const auto& [id, other] : device.runs) used += other.memory.count;
    return used <= device.capacity.memory.count && device.runs.size() < device.capacity.runs_max;
  }
};

void ExpectTheSame(const ClusterState& cluster, const ListedCluster& listed) {
  RC_ASSERT(cluster.devices() == listed.devices.size());
  std::size_t grouped = 0, all_runs = 0;
  for (const ClusterState::Group& group : cluster.groups()) {
    if (!group.lowest) continue;
    RC_ASSERT(group.lowest == *cluster.MembersOf(group).begin());
    for (const ClusterState::Group& other : cluster.groups())
      RC_ASSERT(&other == &group || !other.lowest || other.state != group.state);
    for (const DeviceId id : cluster.MembersOf(group)) RC_ASSERT(*cluster.StateOf(id) == group.state);
    grouped += cluster.MembersOf(group).size();
  }
  RC_ASSERT(grouped == listed.devices.size());
  for (const auto& [id, device] : listed.devices) {
    const DeviceState* state = cluster.StateOf(id);
    RC_ASSERT(state != nullptr);
    RC_ASSERT(cluster.CapacityOf(*state) == device.capacity);
    std::uint64_t used = 0, run_ms = 0;
    std::map<std::uint64_t, std::uint32_t> kinds;  // by time alone
    for (const auto& [run, need] : device.runs) {
      used += need.memory.count;
      run_ms += need.alone_ms;
      ++kinds[need.alone_ms];
      RC_ASSERT(cluster.DeviceOf(run) == id);
      RC_ASSERT(*cluster.NeedOf(run) == need);
    }
    RC_ASSERT(state->runs == device.runs.size());
    RC_ASSERT(state->used.count == used);
    RC_ASSERT(state->run_ms == run_ms);
    ClusterState::NeighboursRoom room;
    const auto neighbours = cluster.NeighboursOf(*state, room);
    RC_ASSERT(neighbours.size() == kinds.size());
    for (const Neighbours& some : neighbours) RC_ASSERT(kinds.at(some.need->alone_ms) == some.runs);
    for (std::size_t i = 1; i < neighbours.size(); ++i) RC_ASSERT(state->by_kind[i - 1].kind < state->by_kind[i].kind);
    RC_ASSERT(state->used <= device.capacity.memory);
    RC_ASSERT(state->runs <= device.capacity.runs_max);
    RC_ASSERT(cluster.RunsOn(id).size() == device.runs.size());
    all_runs += device.runs.size();
  }
  RC_ASSERT(cluster.runs() == all_runs);
}

RC_GTEST_PROP(ClusterStateLaws, EqualsAListOfRuns, ()) {
  ClusterState cluster;
  ListedCluster listed;
  const int steps = *rc::gen::inRange(0, 120);
  for (int step = 0; step < steps; ++step) {
    const DeviceId device{static_cast<std::uint64_t>(*rc::gen::inRange(0, 8))};
    const RunId run{static_cast<std::uint64_t>(*rc::gen::inRange(0, 24))};
    switch (*rc::gen::inRange(0, 8)) {
      case 0: {
        const DeviceCapacity capacity = Capacity(static_cast<std::uint64_t>(*rc::gen::element(100, 200)),
                                                 static_cast<std::uint32_t>(*rc::gen::element(2, 4)));
        const bool wanted = device && !listed.devices.contains(device);
        RC_ASSERT(cluster.Add(device, capacity).has_value() == wanted);
        if (wanted) listed.devices[device] = {capacity, {}};
        break;
      }
      case 1: {
        const auto lost = cluster.Remove(device);
        RC_ASSERT(lost.has_value() == listed.devices.contains(device));
        if (lost) {
          RC_ASSERT(lost->size() == listed.devices[device].runs.size());
          for (const RunId one : *lost) RC_ASSERT(listed.devices[device].runs.contains(one));
          listed.devices.erase(device);
        }
        break;
      }
      case 2:
      case 3: {
        const auto at = std::ranges::find_if(listed.devices, [&](auto& one) { return one.second.runs.erase(run) > 0; });
        RC_ASSERT(cluster.Release(run).has_value() == (at != listed.devices.end()));
        break;
      }
      default: {
        // Few kinds of runs, so that devices reach equal states.
        const RunNeed need = Need(static_cast<std::uint64_t>(*rc::gen::element(0, 40, 70)));
        const auto at = listed.devices.find(device);
        const bool wanted = run && !listed.Has(run) && at != listed.devices.end() && listed.Takes(at->second, need);
        RC_ASSERT(cluster.Place(run, need, device).has_value() == wanted);
        if (wanted) at->second.runs[run] = need;
        break;
      }
    }
    ExpectTheSame(cluster, listed);
  }
}

RC_GTEST_PROP(ClusterStateLaws, ReleaseReturnsAll, ()) {
  ClusterState cluster;
  for (std::uint64_t id = 1; id <= 3; ++id) RC_ASSERT(cluster.Add(DeviceId{id}, Capacity(1'000, 16)).has_value());
  std::vector<RunId> placed;
  for (std::uint64_t id = 1; id <= 40; ++id) {
    const auto mib = static_cast<std::uint64_t>(*rc::gen::inRange(0, 300));
    if (cluster.Place(RunId{id}, Need(mib), DeviceId{id % 3 + 1}).has_value()) placed.push_back(RunId{id});
  }
  while (!placed.empty()) {
    const auto at = placed.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(placed.size()));
    RC_ASSERT(cluster.Release(*at).has_value());
    placed.erase(at);
  }
  for (std::uint64_t id = 1; id <= 3; ++id) RC_ASSERT(*cluster.StateOf(DeviceId{id}) == DeviceState{});
}

}  // namespace
}  // namespace weir::core
