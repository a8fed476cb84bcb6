// SPDX-License-Identifier: Apache-2.0
#include "core/placement/placement_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace weir::core {
namespace {

const DeviceCapacity kSmall{.memory = MiB(400), .runs_max = 4, .loads = {100, 100, 100, 100}};
const RunNeed kTraffic{MiB(100), {0, 90, 10, 10}, 2'000}, kThreads{MiB(100), {0, 5, 95, 10}, 500},
    kWhole{MiB(50), {0, 0, 100, 50}, 700};

std::unique_ptr<Placement> Named(std::string_view name) { return MakePlacement(name, {}).value(); }

ClusterState Devices(std::uint64_t count, const DeviceCapacity& capacity = kSmall) {
  ClusterState cluster;
  for (std::uint64_t id = 1; id <= count; ++id) EXPECT_TRUE(cluster.Add(DeviceId{id}, capacity));
  return cluster;
}

/// Chooses and places; returns the device's id, or 0.
std::uint64_t PlaceBy(Placement& placement, ClusterState& cluster, std::uint64_t run, const RunNeed& need) {
  const PlacementChoice choice = placement.Choose(cluster, need);
  if (choice.device) {
    EXPECT_TRUE(cluster.Place(RunId{run}, need, choice.device));
  }
  return choice.device.value;
}

TEST(PlacementTable, EveryPlacementIsMadeFromItsPresets) {
  for (const PlacementEntry& entry : PlacementTable()) EXPECT_TRUE(MakePlacement(entry.name, {}).has_value());
  EXPECT_TRUE(FindPlacement(kDefaultPlacement).has_value());
  EXPECT_EQ(MakePlacement("best", {}).error().message,
            "unknown placement 'best'; known: interference-aware, serial, round-robin, binpack, spread");
  EXPECT_FALSE(MakePlacement("spread", {{"prior_weight", 1.0}}));
}

TEST(PlacementTable, EveryPlacementHandlesZeroDevices) {
  for (const PlacementEntry& entry : PlacementTable())
    EXPECT_EQ(Words(Named(entry.name)->Choose({}, kTraffic)), "refused: no device has that much memory") << entry.name;
}

TEST(PlacementTable, InterferingKernelsAreSeparated) {
  ClusterState cluster = Devices(2);
  const auto placement = Named("interference-aware");
  RunNeed threads = kThreads;
  threads.alone_ms = kTraffic.alone_ms;
  EXPECT_EQ(PlaceBy(*placement, cluster, 1, kTraffic), 1U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 2, threads), 2U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 3, threads), 1U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 4, kTraffic), 2U);
}

TEST(PlacementTable, PrefersAMuchEarlierFinishOverLessInterference) {
  ClusterState cluster = Devices(2);
  const auto placement = Named("interference-aware");
  EXPECT_EQ(PlaceBy(*placement, cluster, 1, kTraffic), 1U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 2, kThreads), 2U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 3, kThreads), 2U);
}

TEST(PlacementTable, TwoKernelsThatTakeTurnsStartTogether) {
  ClusterState cluster = Devices(2);
  const auto placement = Named("interference-aware");
  for (std::uint64_t run = 1; run <= 4; ++run) EXPECT_EQ(PlaceBy(*placement, cluster, run, kWhole), 1 + (run - 1) % 2);
  EXPECT_EQ(Words(placement->Choose(cluster, kWhole)), "waits: beside the runs there it would only take turns");
}

TEST(PlacementTable, AThirdRunThatWouldOnlyTakeTurnsWaits) {
  ClusterState cluster = Devices(2);
  const auto placement = MakePlacement("interference-aware", {{"turns_deep", 1.0}}).value();
  EXPECT_EQ(PlaceBy(*placement, cluster, 1, kWhole), 1U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 2, kWhole), 2U);
  EXPECT_EQ(Words(placement->Choose(cluster, kWhole)), "waits: beside the runs there it would only take turns");
  EXPECT_EQ(Explain(cluster, *placement->model(), kWhole)[0].reason,
            "1 run there: 2.26 times its time alone, mostly by threads, they would only take turns");
  // A run with other loads may run there, and with turns_at = 0 no run waits.
  EXPECT_EQ(PlaceBy(*placement, cluster, 3, kTraffic), 1U);
  const auto never = MakePlacement("interference-aware", {{"turns_at", 0.0}, {"turns_deep", 1.0}}).value();
  EXPECT_EQ(PlaceBy(*never, cluster, 4, kWhole), 2U);
  ASSERT_TRUE(cluster.Release(RunId{2}));
  ASSERT_TRUE(cluster.Release(RunId{4}));
  EXPECT_EQ(PlaceBy(*placement, cluster, 5, kWhole), 2U);
}

TEST(PlacementTable, TiesGoToTheDeviceWithTheLeastWork) {
  ClusterState cluster = Devices(2);
  const auto placement = MakePlacement("interference-aware", {{"prior_company", 0.0}}).value();
  const RunNeed longer{MiB(10), {}, 900}, shorter{MiB(10), {}, 300};
  EXPECT_EQ(PlaceBy(*placement, cluster, 1, longer), 1U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 2, shorter), 2U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 3, shorter), 2U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 4, longer), 1U);
}

/// A placement that knows how a short and a long kernel slow each other: the long one slows the short one ten times,
/// which their loads do not show.
std::unique_ptr<Placement> Taught(const RunNeed& brief, const RunNeed& lasting, double lasting_slowed,
                                  const PolicyParams& params = {}) {
  auto placement = MakePlacement("interference-aware", params).value();
  for (const auto& [one, other, slowdown] : {std::tuple(brief, lasting, 10.0),
                                             {lasting, brief, lasting_slowed},
                                             {brief, brief, 1.9},
                                             {lasting, lasting, 1.9}})
    placement->model()->Observe(one, {.slowdown = slowdown, .neighbours = 1, .only = other.work}, kSmall);
  return placement;
}

TEST(PlacementTable, RunsWhereItIsKnownToDisturbLeast) {
  const RunNeed brief{MiB(10), {0, 50, 50, 50}, 500, 1}, lasting{MiB(10), {0, 50, 50, 50}, 500, 2};
  ClusterState cluster = Devices(2);
  ASSERT_TRUE(cluster.Place(RunId{1}, lasting, DeviceId{1}));
  ASSERT_TRUE(cluster.Place(RunId{2}, brief, DeviceId{2}));
  const auto placement = Taught(brief, lasting, 2);
  EXPECT_EQ(placement->Choose(cluster, brief).device, DeviceId{2});
  EXPECT_EQ(placement->Choose(cluster, lasting).device, DeviceId{1});
  EXPECT_EQ(Explain(cluster, *placement->model(), brief)[0].reason,
            "1 run there: 1.9 times its time alone, as measured, 0.9 s lost in all");
}

TEST(PlacementTable, WaitsWhenThatFinishesSooner) {
  const RunNeed brief{MiB(10), {0, 50, 50, 50}, 500, 1}, lasting{MiB(10), {0, 50, 50, 50}, 500, 2};
  ClusterState cluster = Devices(1);
  ASSERT_TRUE(cluster.Place(RunId{1}, lasting, DeviceId{1}));
  // Beside it until the long run ends at 0.55 s, then 0.445 s alone: 0.995 s instead of 1 s is a gain.
  EXPECT_EQ(Taught(brief, lasting, 1.1)->Choose(cluster, brief).device, DeviceId{1});
  const RunNeed longer{MiB(10), {0, 50, 50, 50}, 5'000, 2};
  ASSERT_TRUE(cluster.Add(DeviceId{2}, kSmall));
  ASSERT_TRUE(cluster.Place(RunId{2}, longer, DeviceId{2}));
  ASSERT_TRUE(cluster.Release(RunId{1}));
  ASSERT_TRUE(cluster.Place(RunId{3}, {MiB(395), {}, 100}, DeviceId{1}));  // full, but done soon
  EXPECT_EQ(Words(Taught(brief, longer, 1.1)->Choose(cluster, brief)),
            "waits: all is done sooner if it waits for the device that is done first");
  EXPECT_EQ(Taught(brief, longer, 1.1, {{"near", 100.0}})->Choose(cluster, brief).device, DeviceId{2});
  EXPECT_EQ(Explain(cluster, *Taught(brief, longer, 1.1)->model(), brief)[0].reason,
            "1 run there: 10 times its time alone, as measured, sooner done if it waits");
}

TEST(PlacementTable, SerialWaitsForAnIdleDevice) {
  ClusterState cluster = Devices(2);
  const auto placement = Named("serial");
  EXPECT_EQ(PlaceBy(*placement, cluster, 1, kTraffic), 1U);
  EXPECT_EQ(PlaceBy(*placement, cluster, 2, kTraffic), 2U);
  EXPECT_EQ(Words(placement->Choose(cluster, kTraffic)), "waits: no device is idle");
  ASSERT_TRUE(cluster.Release(RunId{1}));
  EXPECT_EQ(PlaceBy(*placement, cluster, 3, kTraffic), 1U);
}

TEST(PlacementTable, RoundRobinSkipsFullDevices) {
  ClusterState cluster = Devices(3);
  const auto placement = Named("round-robin");
  ASSERT_TRUE(cluster.Place(RunId{100}, {MiB(350), {}, 1}, DeviceId{2}));
  std::vector<std::uint64_t> turns;
  for (std::uint64_t run = 1; run <= 8; ++run) turns.push_back(PlaceBy(*placement, cluster, run, kTraffic));
  EXPECT_EQ(turns, (std::vector<std::uint64_t>{1, 3, 1, 3, 1, 3, 1, 3}));
  EXPECT_EQ(Words(placement->Choose(cluster, kTraffic)),
            "waits: no device has the memory free and runs fewer than it may");
}

TEST(PlacementTable, BinpackFillsOneDeviceAndSpreadAll) {
  ClusterState packed = Devices(3), spread = Devices(3);
  const auto binpack = Named("binpack"), even = Named("spread");
  std::vector<std::uint64_t> ids_packed, ids_spread;
  for (std::uint64_t run = 1; run <= 6; ++run) {
    ids_packed.push_back(PlaceBy(*binpack, packed, run, kTraffic));
    ids_spread.push_back(PlaceBy(*even, spread, run, kTraffic));
  }
  EXPECT_EQ(ids_packed, (std::vector<std::uint64_t>{1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(ids_spread, (std::vector<std::uint64_t>{1, 2, 3, 1, 2, 3}));
}

TEST(PlacementTable, RefusesARunThatNeverFits) {
  const ClusterState cluster = Devices(1);
  const RunNeed huge{MiB(401), {}, 1};
  for (const PlacementEntry& entry : PlacementTable())
    EXPECT_EQ(Named(entry.name)->Choose(cluster, huge).reason, PlacementReason::kTooLarge) << entry.name;
}

TEST(PlacementTable, ExplainsDevicesBestFirst) {
  ClusterState cluster = Devices(6);
  ASSERT_TRUE(cluster.Place(RunId{1}, kTraffic, DeviceId{1}));
  ASSERT_TRUE(cluster.Place(RunId{2}, kThreads, DeviceId{2}));
  ASSERT_TRUE(cluster.Place(RunId{3}, {MiB(350), {}, 1}, DeviceId{3}));
  for (std::uint64_t run = 4; run <= 7; ++run) ASSERT_TRUE(cluster.Place(RunId{run}, {{}, {}, 1}, DeviceId{4}));
  const auto all = Explain(cluster, InterferenceModel(), kTraffic);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[0].device, DeviceId{5});
  EXPECT_EQ(all[0].alike, 2U);
  EXPECT_EQ(all[0].reason, "idle: it runs as fast as alone");
  EXPECT_EQ(all[1].device, DeviceId{2});
  EXPECT_EQ(all[1].reason, "1 run there: 1.16 times its time alone, mostly by threads, 0.16 s lost in all");
  EXPECT_EQ(all[2].reason,
            "1 run there: 1.84 times its time alone, mostly by global memory traffic, 3.36 s lost in all");
  EXPECT_EQ(all[3].reason, "no room: 50 of 400 MiB are free, 100 are needed");
  EXPECT_EQ(all[4].reason, "no room: 4 runs there, the maximum");
  EXPECT_EQ(Explain(cluster, InterferenceModel(), kTraffic, 2).size(), 2U);
}

// -- Laws: each placement against one that looks at every device -----------------------------------------------------

struct Scanned {
  std::vector<double> rank;
  DeviceId id;
  double done_s;
  bool sure;  // certain enough to wait for it
};

/// Reference: the placement's choice, computed over all devices; `last` is round-robin's last device.
DeviceId ScanFor(std::string_view name, const ClusterState& cluster, std::uint64_t devices, const RunNeed& need,
                 const InterferenceModel& model, DeviceId last) {
  const bool aware = name == "interference-aware";
  const double alone_s = static_cast<double>(need.alone_ms) * 1e-3;
  std::vector<Scanned> all;
  double first_s = std::numeric_limits<double>::infinity(), done_s = first_s;
  for (std::uint64_t id = 1; id <= devices; ++id) {
    const DeviceState& state = *cluster.StateOf(DeviceId{id});
    const DeviceCapacity& capacity = cluster.CapacityOf(state);
    const auto free_mib = static_cast<double>((capacity.memory.count - state.used.count) >> 20);
    const bool idle = state.runs == 0;
    ClusterState::NeighboursRoom room;
    const Interference predicted = model.Predict(need, cluster.NeighboursOf(state, room), capacity);
    if (need.memory <= capacity.memory) first_s = std::min(first_s, predicted.before_s);
    if (static_cast<double>(need.memory.count >> 20) > free_mib || state.runs == capacity.runs_max) continue;
    const bool gains = predicted.known == state.runs ? predicted.done_s < predicted.before_s + alone_s
                                                     : predicted.slowdown - 1 < 0.9 * state.runs;
    if ((aware && state.runs >= 2 && !gains) || (name == "serial" && !idle)) continue;
    std::vector<double> rank;
    if (aware)
      rank = {idle ? 0.0 : 1.0, idle ? 0.0 : predicted.lost_s, idle ? 0.0 : predicted.done_s,
              static_cast<double>(state.run_ms)};
    else if (name == "round-robin")
      rank = {DeviceId{id} > last ? 0.0 : 1.0};
    else if (name == "binpack")
      rank = {free_mib, -static_cast<double>(state.runs)};
    else if (name == "spread")
      rank = {static_cast<double>(state.runs), -free_mib};
    all.push_back({rank, DeviceId{id}, predicted.done_s, !idle && (predicted.known == state.runs || state.runs >= 2)});
    done_s = std::min(done_s, predicted.done_s);
  }
  if (aware) std::erase_if(all, [&](const Scanned& one) { return one.rank[0] == 1 && one.done_s > 1.1 * done_s; });
  const auto best = std::ranges::min_element(all, {}, [](const Scanned& one) { return std::pair(one.rank, one.id); });
  if (best == all.end()) return {};
  return aware && best->sure && best->done_s > 1.1 * (first_s + alone_s) ? DeviceId{} : best->id;
}

RC_GTEST_PROP(PlacementLaws, TheIndexChoosesAsAFullScanDoes, ()) {
  constexpr std::uint64_t kDevices = 6;
  for (const PlacementEntry& entry : PlacementTable()) {
    const auto placement = Named(entry.name);
    const InterferenceModel guess;
    const InterferenceModel& model = placement->model() != nullptr ? *placement->model() : guess;
    ClusterState cluster;
    for (std::uint64_t id = 1; id <= kDevices; ++id) {
      DeviceCapacity capacity = kSmall;
      capacity.memory = MiB(*rc::gen::element<std::uint64_t>(200, 400));
      RC_ASSERT(cluster.Add(DeviceId{id}, capacity).has_value());
    }
    std::vector<std::uint64_t> running;
    DeviceId last;
    for (std::uint64_t run = 1; run <= 30; ++run) {
      if (!running.empty() && *rc::gen::inRange(0, 3) == 0) {
        const auto gone = running.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(running));
        RC_ASSERT(cluster.Release(RunId{*gone}).has_value());
        running.erase(gone);
      }
      RunNeed need = *rc::gen::element(kTraffic, kThreads, kWhole, RunNeed{MiB(150), {50, 50, 20, 60}, 3'000});
      if (*rc::gen::inRange(0, 4) == 0) need.loads[0] = static_cast<std::uint64_t>(*rc::gen::inRange(0, 100));
      // Pairs of some works become known, some of them in one direction.
      need.work = *rc::gen::element<std::uint64_t>(0, 1, 2, 3);
      if (placement->model() != nullptr && *rc::gen::inRange(0, 2) == 0)
        placement->model()->Observe(need,
                                    {.slowdown = *rc::gen::inRange(90, 800) / 100.0,
                                     .neighbours = 1,
                                     .only = *rc::gen::element<std::uint64_t>(1, 2, 3)},
                                    kSmall);
      const DeviceId wanted = ScanFor(entry.name, cluster, kDevices, need, model, last);
      const PlacementChoice choice = placement->Choose(cluster, need);
      RC_ASSERT(choice.device == wanted);
      if (!wanted) continue;
      last = wanted;
      bool any_idle = false;
      for (std::uint64_t id = 1; id <= kDevices; ++id) {
        const DeviceState& state = *cluster.StateOf(DeviceId{id});
        any_idle = any_idle || (state.runs == 0 && cluster.CapacityOf(state).memory >= need.memory);
      }
      if (entry.name == "interference-aware") RC_ASSERT((choice.reason == PlacementReason::kIdle) == any_idle);
      RC_ASSERT(cluster.Place(RunId{run}, need, wanted).has_value());
      running.push_back(run);
    }
  }
}

RC_GTEST_PROP(PlacementLaws, OfDevicesOfEqualStateTheLowestIsTaken, ()) {
  // The same runs on devices that are named in another order: the choice is the lowest name of the same state.
  const auto needs =
      *rc::gen::resize(10, rc::gen::container<std::vector<RunNeed>>(rc::gen::element(kTraffic, kThreads)));
  std::vector<std::uint64_t> names{1, 2, 3, 4, 5};
  for (std::size_t i = names.size() - 1; i > 0; --i)
    std::swap(names[i], names[static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(i) + 1))]);
  ClusterState plain = Devices(5), renamed = Devices(5);
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const RunId run{i + 1};
    RC_ASSERT(plain.Place(run, needs[i], DeviceId{i % 5 + 1}).has_value());
    RC_ASSERT(renamed.Place(run, needs[i], DeviceId{names[i % 5]}).has_value());
  }
  for (const char* name : {"interference-aware", "serial", "binpack", "spread"}) {
    const DeviceId a = Named(name)->Choose(plain, kTraffic).device, b = Named(name)->Choose(renamed, kTraffic).device;
    RC_ASSERT(static_cast<bool>(a) == static_cast<bool>(b));
    if (!a) continue;
    // Both have equal rank: these two placements consider only memory and runs.
    const DeviceState &of_a = *plain.StateOf(a), &of_b = *renamed.StateOf(b);
    if (name == std::string_view("binpack") || name == std::string_view("spread"))
      RC_ASSERT(std::pair(of_a.used, of_a.runs) == std::pair(of_b.used, of_b.runs));
    else
      RC_ASSERT(of_a == of_b);
    for (std::uint64_t id = 1; id < b.value; ++id) RC_ASSERT(*renamed.StateOf(DeviceId{id}) != *renamed.StateOf(b));
  }
}

}  // namespace
}  // namespace weir::core
