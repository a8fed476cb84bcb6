// SPDX-License-Identifier: Apache-2.0
#include "core/partition/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::core {
namespace {

using enum PlanKind;

/// The paper's case: a product of 11,000 · 11,000 on a card with 0.53 GiB free, a node with room, and 1 Gb/s between
/// them.
struct PlanRig {
  explicit PlanRig(std::uint64_t n = 11'000) : need(MatrixProductNeed(n, 8)) {
    task.groups = {n / 8, n / 8, 1};
    task.need = &need;
  }
  [[nodiscard]] Plan Make(PartitionMode mode) const { return MakePlan(mode, task, here, peer, params); }

  AffineNeed need;
  TaskView task;
  DeviceView here{.room = MiB(547),
                  .total = MiB(10'240),
                  .in_bytes_per_s = 3e9,
                  .out_bytes_per_s = 2e9,
                  .launch = milliseconds(30)};
  std::optional<PeerView> peer = PeerView{.id = NodeId{2},
                                          .device = {.room = MiB(2'048),
                                                     .total = MiB(4'096),
                                                     .in_bytes_per_s = 3e9,
                                                     .out_bytes_per_s = 2e9,
                                                     .launch = milliseconds(30)},
                                          .link = {.bytes_per_s = 118e6, .stretch = microseconds(5)}};
  PlanParams params;
};

TEST(MakePlan, WhatFitsRunsHere) {
  PlanRig rig;
  rig.here.room = MiB(4'000);
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kStay, PartitionMode::kPaper}) {
    const Plan plan = rig.Make(mode);
    EXPECT_EQ(plan.kind, kHere);
    EXPECT_EQ(plan.reason, PlanReason::kFits);
    EXPECT_EQ(plan.kept(), 1375u);
  }
}

TEST(MakePlan, ThePapersCutIsFreeMemoryOverDataPerThreadWithoutItsSlip) {
  PlanRig rig;
  const Plan plan = rig.Make(PartitionMode::kPaper);
  ASSERT_EQ(plan.kind, kSplit);
  EXPECT_EQ(plan.dimension, 1);  // rows: contiguous slices
  // 547 MiB of 1,384.7 MiB, for 1,375 groups; the other part begins at the end of this one.
  EXPECT_EQ(plan.ends, (std::vector<std::uint64_t>{543, 1375}));
  EXPECT_EQ(plan.nodes, std::vector{NodeId{2}});
}

TEST(MakePlan, ThePaperMigratesTheWholeBelowTheMinimumShareAndWaitsForANode) {
  PlanRig rig(13'000);  // 28 % of it fits
  EXPECT_EQ(rig.Make(PartitionMode::kPaper).kind, kMigrate);
  EXPECT_EQ(rig.Make(PartitionMode::kPaper).reason, PlanReason::kBelowMinimum);
  rig.params.min_share = 0.1;  // the value in the paper's text
  EXPECT_EQ(rig.Make(PartitionMode::kPaper).kind, kSplit);
  rig.peer.reset();
  EXPECT_EQ(rig.Make(PartitionMode::kPaper).kind, kWait);
}

TEST(MakePlan, ThePapersPartDoesNotFitWhereAllPartsReadTheSame) {
  // Any part of A and C needs all of B on the device: 39.5 % of the rows take 827 MiB, but 547 MiB are free.
  PlanRig rig;
  const Plan plan = rig.Make(PartitionMode::kPaper);
  EXPECT_GT(rig.need.Of({1, 0, plan.kept()}).device, rig.here.room);
  EXPECT_EQ(plan.times.total, Duration::max());
}

TEST(MakePlan, RunsLocallyInPiecesWhenTheLinkIsSlow) {
  const Plan plan = PlanRig().Make(PartitionMode::kAuto);
  EXPECT_EQ(plan.kind, kPieces);
  EXPECT_EQ(plan.here, 11u);  // 9.3 % of the rows fit beside B
  EXPECT_EQ(plan.ends.back(), 1375u);
}

TEST(MakePlan, SplitsWhenComputingIsSlow) {
  PlanRig rig;
  rig.here.group_s = rig.peer->device.group_s = 60.0 / (1375.0 * 1375.0);  // a minute in total
  const Plan plan = rig.Make(PartitionMode::kAuto);
  ASSERT_EQ(plan.kind, kSplit);
  // Both sides take about the same time.
  EXPECT_NEAR(SecondsOf(plan.times.here), SecondsOf(plan.times.there), 0.2);
  EXPECT_LT(SecondsOf(plan.times.total), 45);
  rig.here.queue = seconds(600);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).kind, kMigrate);
}

TEST(MakePlan, CutsAlongTheDimensionWhoseSlicesAreContiguous) {
  PlanRig rig;
  rig.here.group_s = rig.peer->device.group_s = 60.0 / (1375.0 * 1375.0);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).dimension, 1);
  rig.need.Keep(1);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).dimension, 0);
  EXPECT_EQ(rig.Make(PartitionMode::kPaper).dimension, 0);
  rig.need.Keep(0);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).kind, kMigrate);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).reason, PlanReason::kOnlyWay);
}

TEST(MakePlan, NeverModeKeepsEverythingLocal) {
  PlanRig rig;
  rig.here.group_s = rig.peer->device.group_s = 1e-4;
  EXPECT_EQ(rig.Make(PartitionMode::kStay).kind, kPieces);
  rig.need.Keep(0);
  rig.need.Keep(1);
  EXPECT_EQ(rig.Make(PartitionMode::kStay).kind, kWait);
}

TEST(MakePlan, ARemotePartIsNotSentOn) {
  PlanRig rig;
  rig.here.queue = seconds(600);
  ASSERT_TRUE(rig.Make(PartitionMode::kAuto).Leaves());
  rig.task.from_elsewhere = true;
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kAlways, PartitionMode::kPaper})
    EXPECT_FALSE(rig.Make(mode).Leaves());
}

TEST(MakePlan, AlwaysModeSplitsByTheGivenShareEvenIfItFits) {
  PlanRig rig;
  rig.here.room = MiB(4'000);
  const Plan plan = rig.Make(PartitionMode::kAlways);
  EXPECT_EQ(plan.kind, kSplit);
  EXPECT_EQ(plan.reason, PlanReason::kAsked);
  EXPECT_EQ(plan.kept(), 688u);
  rig.peer.reset();
  EXPECT_EQ(rig.Make(PartitionMode::kAlways).kind, kHere);
}

TEST(MakePlan, WaitsWhenRoomComesSoonAndThatIsFaster) {
  PlanRig rig;
  rig.need.Keep(0);
  rig.need.Keep(1);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).kind, kMigrate);
  rig.task.room_in = seconds(3);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).kind, kWait);
  rig.task.room_in = seconds(30);
  EXPECT_EQ(rig.Make(PartitionMode::kAuto).kind, kMigrate);
}

TEST(MakePlan, RefusesALaunchThatNeverFits) {
  PlanRig rig;
  rig.need.Keep(0);
  rig.need.Keep(1);
  rig.peer.reset();
  rig.here.room = rig.here.total = MiB(1'000);
  const Plan plan = rig.Make(PartitionMode::kAuto);
  EXPECT_EQ(plan.kind, kRefuse);
  EXPECT_EQ(Words(plan), "refused: larger than the device, no node with room, and no way to cut it small enough");
}

TEST(MakePlan, ExplainsItsDecision) {
  PlanRig rig;
  rig.params.min_share = 0.1;
  EXPECT_EQ(Words(rig.Make(PartitionMode::kPaper)),
            "543 of 1375 groups along dimension 1 here, the others on node 2: the part that fits here is large enough");
}

TEST(PartitionMode, IsNamedAndListed) {
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kStay, PartitionMode::kAlways, PartitionMode::kPaper}) {
    const auto named = PartitionModeNamed(NameOf(mode));
    ASSERT_TRUE(named.has_value());
    EXPECT_EQ(*named, mode);
  }
  EXPECT_EQ(PartitionModeNamed("some").error().message,
            "unknown way of partitioning 'some'; known: auto, never, always, paper");
}

// -- Several nodes ---------------------------------------------------------------------------------------------------

/// A long computation, and two nodes like this one.
struct SharedRig : PlanRig {
  SharedRig() {
    here.group_s = 1e-5;
    PeerView like = *peer;
    like.device.group_s = 1e-5;
    like.link.bytes_per_s = 1e9;
    for (const std::uint64_t id : {5, 3}) {
      like.id = NodeId{id};
      peers.push_back(like);
    }
  }
  [[nodiscard]] Plan Share(PartitionMode mode = PartitionMode::kAuto) const {
    return MakePlan(mode, task, here, std::span<const PeerView>(peers), params);
  }
  std::vector<PeerView> peers;
};

TEST(MakePlan, UsesTwoNodesWhenThatIsFaster) {
  SharedRig rig;
  const Plan plan = rig.Share();
  ASSERT_EQ(plan.kind, kSplit);
  EXPECT_EQ(plan.nodes, (std::vector{NodeId{3}, NodeId{5}})) << "as many threads: the lower id first";
  EXPECT_EQ(plan.ends.size(), plan.here + 2U);
  for (const PeerView& one : rig.peers)
    EXPECT_LT(plan.times.total, MakePlan(PartitionMode::kAuto, rig.task, rig.here, std::optional(one)).times.total);
  // They end together, up to the time of one local piece.
  EXPECT_LT(plan.times.total - plan.times.there, milliseconds(500));
  EXPECT_NE(Words(plan).find("the others on nodes 3, 5"), std::string::npos) << Words(plan);
}

TEST(MakePlan, TheNodeWithTheFewestThreadsComesFirst) {
  SharedRig rig;
  rig.peers[1].threads = 1'000;
  EXPECT_EQ(rig.Share().nodes, (std::vector{NodeId{5}, NodeId{3}}));
  EXPECT_EQ(rig.Share(PartitionMode::kPaper).nodes, std::vector{NodeId{5}});
}

TEST(MakePlan, AMuchSlowerNodeGetsNoPart) {
  SharedRig rig;
  rig.peers[0].device.queue = seconds(3'600);
  EXPECT_EQ(rig.Share().nodes, std::vector{NodeId{3}});
}

TEST(MakePlan, AlwaysSharesAmongAllNodes) {
  SharedRig rig;
  const Plan plan = rig.Share(PartitionMode::kAlways);
  ASSERT_EQ(plan.nodes.size(), 2U);
  EXPECT_EQ(plan.kept(), 688U);
  EXPECT_EQ(plan.ends[plan.here] - plan.kept(), 343U);
}

TEST(MakePlan, ARemotePartIsSentToNoOtherNode) {
  SharedRig rig;
  rig.task.from_elsewhere = true;
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kAlways, PartitionMode::kPaper})
    EXPECT_FALSE(rig.Share(mode).Leaves());
}

// -- Laws ------------------------------------------------------------------------------------------------------------

struct DrawnCase {
  AffineNeed need;
  TaskView task;
  DeviceView here;
  std::optional<PeerView> peer;
  PlanParams params;
  bool shares = false;  // all parts read some bytes in common

  DrawnCase() {
    const auto amount = [](std::uint64_t to) { return *rc::gen::inRange<std::uint64_t>(0, to + 1); };
    const auto device = [&](DeviceView& view) {
      view.total = Bytes{amount(40'000)};
      view.room = Bytes{amount(view.total.count)};
      view.in_bytes_per_s = static_cast<double>(1 + amount(50'000));
      view.out_bytes_per_s = static_cast<double>(1 + amount(50'000));
      view.queue = milliseconds(amount(500));
      view.launch = milliseconds(amount(20));
      view.group_s = static_cast<double>(amount(20)) * 1e-3;
    };
    for (unsigned dimension = 0; dimension < kDimensionsMax; ++dimension) {
      task.groups[dimension] = 1 + amount(200);
      if (amount(2) == 0) continue;
      const auto arguments = 1 + amount(3);
      for (std::uint64_t i = 0; i < arguments; ++i) {
        const AffineArgument argument{.fixed = Bytes{amount(1) * amount(3'000)},
                                      .per_group = Bytes{amount(200)},
                                      .read = amount(2) > 0,
                                      .written = amount(1) > 0,
                                      .stretches = 1 + amount(50)};
        need.Add(dimension, argument);
        shares = shares || argument.fixed.count > 0;
      }
    }
    task.need = &need;
    task.from_elsewhere = amount(9) == 0;
    task.client_bytes_per_s = amount(1) == 0 ? 0 : static_cast<double>(1 + amount(50'000));
    if (amount(2) == 0) task.room_in = milliseconds(amount(2'000));
    device(here);
    if (amount(3) > 0) {
      peer.emplace();
      peer->id = NodeId{1 + amount(5)};
      device(peer->device);
      peer->link = {.bytes_per_s = static_cast<double>(1 + amount(20'000)),
                    .latency = milliseconds(amount(20)),
                    .stretch = microseconds(amount(2'000)),
                    .queue = milliseconds(amount(100))};
    }
    params.min_share = static_cast<double>(amount(100)) / 100;
    params.always_share = static_cast<double>(amount(100)) / 100;
  }
  [[nodiscard]] Plan Make(PartitionMode mode) const { return MakePlan(mode, task, here, peer, params); }
};

constexpr Duration kSumsApart = nanoseconds(100);  // tolerance for sums of seconds in another order

/// Checks laws 1 and 2.
void CheckParts(const DrawnCase& drawn, const Plan& plan, bool fits_here) {
  const std::uint64_t count = drawn.task.groups[static_cast<std::size_t>(plan.dimension)];
  if (plan.ends.empty()) {
    RC_ASSERT(plan.kind == kWait || plan.kind == kRefuse);
    return;
  }
  RC_ASSERT(plan.ends.back() == count);
  RC_ASSERT(plan.here <= plan.ends.size());
  RC_ASSERT(plan.ends.size() - plan.here == (plan.Leaves() ? 1u : 0u));
  std::uint64_t first = 0;
  for (std::size_t part = 0; part < plan.ends.size(); ++part) {
    const std::uint64_t last = plan.ends[part];
    RC_ASSERT(first < last);
    const Bytes device = drawn.need.Of({plan.dimension, first, last}).device;
    if (part < plan.here)
      RC_ASSERT(!fits_here || device <= drawn.here.room);
    else
      RC_ASSERT(drawn.peer && plan.nodes[0] == drawn.peer->id && device <= drawn.peer->device.room);
    first = last;
  }
  RC_ASSERT(plan.ends.size() == 1u || drawn.need.Cuttable(plan.dimension));
  RC_ASSERT(!plan.Leaves() || !drawn.task.from_elsewhere);
}

RC_GTEST_PROP(MakePlanLaw, PartsCoverAllGroupsOnceAndFitWhereTheyArePlaced, ()) {
  const DrawnCase drawn;
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kStay, PartitionMode::kAlways}) {
    const Plan plan = drawn.Make(mode);
    CheckParts(drawn, plan, true);
    RC_ASSERT(mode != PartitionMode::kStay || !plan.Leaves());
  }
  CheckParts(drawn, drawn.Make(PartitionMode::kPaper), !drawn.shares);
}

RC_GTEST_PROP(MakePlanLaw, AutoIsNeverPredictedSlowerThanAnotherWay, ()) {
  const DrawnCase drawn;
  const Plan best = drawn.Make(PartitionMode::kAuto);
  const auto reckoned = [&](const Plan& plan) { return Reckon(plan, drawn.task, drawn.here, drawn.peer).total; };
  if (best.kind == kHere) return;  // it fits: law 3
  const Duration most = best.times.total < Duration::max() ? best.times.total - kSumsApart : best.times.total;
  RC_ASSERT(best.ends.empty() || reckoned(best) == best.times.total);
  for (const auto mode : {PartitionMode::kPaper, PartitionMode::kStay, PartitionMode::kAlways})
    RC_ASSERT(most <= reckoned(drawn.Make(mode)));
  if (!drawn.peer || drawn.task.from_elsewhere) return;
  // Any other cut into two parts.
  const unsigned dimension = *rc::gen::inRange(0U, kDimensionsMax);
  const std::uint64_t count = drawn.task.groups[dimension];
  if (!drawn.need.Cuttable(dimension) || count < 2) return;
  const auto kept = *rc::gen::inRange<std::uint64_t>(1, count);
  const Plan other{.kind = kSplit, .dimension = dimension, .ends = {kept, count}, .here = 1, .nodes = {drawn.peer->id}};
  RC_ASSERT(most <= reckoned(other));
}

RC_GTEST_PROP(MakePlanLaw, AFasterLinkNeverMakesTheTimeLonger, ()) {
  DrawnCase drawn;
  if (!drawn.peer) return;
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kStay}) {
    const Duration slow = drawn.Make(mode).times.total;
    const double bytes_per_s = drawn.peer->link.bytes_per_s;
    drawn.peer->link.bytes_per_s *= 1 + *rc::gen::inRange(1, 100) * 0.1;
    const Duration fast = drawn.Make(mode).times.total;
    drawn.peer->link.bytes_per_s = bytes_per_s;
    RC_ASSERT(slow == Duration::max() || fast <= slow + kSumsApart);
  }
}

// The laws for one node hold for several, and further nodes never make a plan slower.
RC_GTEST_PROP(MakePlanLaw, PartsOnSeveralNodesCoverAllGroupsOnceAndFit, ()) {
  DrawnCase drawn;
  std::vector<PeerView> peers;
  for (std::uint64_t id = 1; id <= *rc::gen::inRange<std::uint64_t>(2, 5); ++id) {
    const DrawnCase another;
    if (!another.peer) continue;
    peers.push_back(*another.peer);
    peers.back().id = NodeId{id};
    peers.back().threads = *rc::gen::inRange<std::uint64_t>(0, 3);
  }
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kAlways}) {
    const Plan plan = MakePlan(mode, drawn.task, drawn.here, std::span<const PeerView>(peers), drawn.params);
    RC_ASSERT(plan.ends.empty() || plan.ends.size() == plan.here + plan.nodes.size());
    RC_ASSERT(plan.Leaves() == !plan.nodes.empty());
    std::uint64_t first = 0;
    for (std::size_t part = 0; part < plan.ends.size(); ++part) {
      RC_ASSERT(first < plan.ends[part]);
      const Bytes device = drawn.need.Of({plan.dimension, first, plan.ends[part]}).device;
      first = plan.ends[part];
      if (part < plan.here) {
        RC_ASSERT(device <= drawn.here.room);
        continue;
      }
      const NodeId node = plan.nodes[part - plan.here];
      RC_ASSERT(std::ranges::count(plan.nodes, node) == 1);
      const auto peer = std::ranges::find(peers, node, &PeerView::id);
      RC_ASSERT(peer != peers.end() && device <= peer->device.room);
    }
    RC_ASSERT(plan.ends.empty() || first == drawn.task.groups[plan.dimension]);
    if (mode != PartitionMode::kAuto) continue;
    RC_ASSERT(plan.ends.empty() || plan.kind == kHere ||
              Reckon(plan, drawn.task, drawn.here, std::span<const PeerView>(peers)).total == plan.times.total);
    for (const PeerView& peer : peers) {
      const Plan one = MakePlan(mode, drawn.task, drawn.here, std::optional(peer), drawn.params);
      RC_ASSERT(one.times.total == Duration::max() || plan.times.total <= one.times.total);
    }
  }
}

RC_GTEST_PROP(MakePlanLaw, NothingWaitsWhenTheDeviceIsFree, ()) {
  DrawnCase drawn;
  drawn.here.room = drawn.here.total;
  for (const auto mode : {PartitionMode::kAuto, PartitionMode::kStay, PartitionMode::kAlways}) {
    const Plan plan = drawn.Make(mode);
    RC_ASSERT(plan.kind != kWait);
    RC_ASSERT(plan.kind != kRefuse || plan.reason == PlanReason::kTooLarge);
  }
}

}  // namespace
}  // namespace weir::core
