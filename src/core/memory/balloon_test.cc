// SPDX-License-Identifier: Apache-2.0
#include "core/memory/balloon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/harness/balloon_rig.h"

namespace weir::core {
namespace {

using NoteKind = BalloonNote::Kind;

// -- Overhead --------------------------------------------------------------------------------------------------------

TEST(Balloon, OverheadIsEquations1To3) {
  Balloon balloon(CheckedParams({{"steal_max", 200}, {"copy_max", 10}}), {.slots = 54, .cpus = 8});
  std::vector<BalloonNote> notes;
  std::vector<MemoryView> views{{.id = VgpuId{1}, .threads = 2}, {.id = VgpuId{2}, .threads = 1}};
  for (const MemoryView& view : views) ASSERT_TRUE(balloon.Add(view.id, SlotsWorth(6), Bytes{}).has_value());
  Instant now = InstantFromNs(5'000'000'000);
  EXPECT_EQ(balloon.See(now, views, notes), now + milliseconds(500));
  now += milliseconds(500);
  views[0].copying = milliseconds(120);
  views[1].copying = milliseconds(80);
  views[0].steal = milliseconds(250);      // of two threads: 1 s
  views[0].elsewhere = milliseconds(750);  // 2 · 0.25 = 50 %
  views[1].steal = milliseconds(50);
  views[1].elsewhere = milliseconds(450);  // 10 %
  balloon.See(now, views, notes);
  EXPECT_NEAR(balloon.copying(), 5.0, 1e-9);  // 200 ms of 500 ms, of 8 CPUs
  EXPECT_NEAR(balloon.steal(), 60.0, 1e-9);
  EXPECT_NEAR(balloon.overhead(), 60.0 / 200 + 5.0 / 10, 1e-9);
  EXPECT_EQ(balloon.pressure(), MemoryPressure::kMiddle);
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.front().kind, NoteKind::kPressure);
}

TEST(Balloon, OverheadIsAtMostTwo) {
  BalloonRig rig(8, {{"steal_max", 1}, {"copy_max", 1}});
  rig.Add(1, 1, 8);
  rig.Look(1.9);
  EXPECT_DOUBLE_EQ(rig.balloon.overhead(), 2.0);
}

TEST(Balloon, ADecreasingTotalCountsAsRestarted) {
  BalloonRig rig(8);
  rig.Add(1, 1, 8);
  rig.Look(0.9);
  rig.ViewOf(1).copying = milliseconds(100);  // a restarted executor
  rig.now += milliseconds(500);
  rig.See();
  EXPECT_NEAR(rig.balloon.overhead(), 0.2, 1e-9);
}

TEST(Balloon, ChecksNoMoreOftenThanItsPeriod) {
  BalloonRig rig(8);
  rig.Add(1, 1, 8);
  rig.Look(0);
  const Instant due = rig.next;
  rig.ViewOf(1).copying += milliseconds(400);
  rig.now += milliseconds(499);
  rig.See();
  EXPECT_EQ(rig.next, due);
  EXPECT_DOUBLE_EQ(rig.balloon.overhead(), 0);
  rig.now += milliseconds(1);
  rig.See();
  EXPECT_NEAR(rig.balloon.overhead(), 0.8, 1e-9);
}

// -- The three regimes -----------------------------------------------------------------------------------------------

TEST(Balloon, BelowTheLowLineGrantsAllAndTakesNothing) {
  BalloonRig rig(54);
  rig.Add(1, 6, 16);
  rig.Add(2, 6, 16);
  rig.Look(0.5);
  const SlotGrant grant = rig.Ask(1, 13);
  EXPECT_EQ(grant.note.kind, NoteKind::kGranted);
  EXPECT_EQ(grant.note.slots, 7U);
  EXPECT_EQ(grant.note.held, 13U);
  EXPECT_EQ(rig.Ask(1, 13).note.kind, NoteKind::kHas);
  EXPECT_EQ(rig.Ask(1, 20).note.kind, NoteKind::kPartly);
  EXPECT_EQ(rig.Held(1), 16U);
  const SlotGrant more = rig.Ask(1, 20);
  EXPECT_EQ(more.note.kind, NoteKind::kAtMaximum);
  EXPECT_FALSE(more.granted());
  EXPECT_EQ(more.again, Instant::max());
  EXPECT_EQ(rig.Shrunk(), 0U);
}

TEST(Balloon, BetweenTheLinesShrinksTheVgpuWithMostUnusedSlots) {
  BalloonRig rig(20);
  rig.Add(1, 4, 20);
  rig.Add(2, 2, 20);
  rig.Add(3, 2, 20);
  EXPECT_TRUE(rig.Ask(1, 16).granted());
  EXPECT_TRUE(rig.Ask(2, 10).granted());
  EXPECT_TRUE(rig.Ask(3, 10).granted());
  rig.ViewOf(1).in_use = SlotsWorth(14);  // the largest one, with 2 idle slots
  rig.ViewOf(2).in_use = SlotsWorth(7);   // 3 idle slots
  rig.ViewOf(3).in_use = SlotsWorth(10);
  rig.Look(0.8);
  ASSERT_EQ(rig.Shrunk(), 2U);
  EXPECT_EQ(rig.notes.back().vgpu, VgpuId{2});
  EXPECT_EQ(rig.notes.back().kind, NoteKind::kShrunkIdle);
  EXPECT_EQ(rig.Held(2), 8U);
  EXPECT_TRUE(rig.Ask(3, 11).granted());
  EXPECT_EQ(rig.Ask(2, 10).note.kind, NoteKind::kJustShrunk);
  rig.ViewOf(3).in_use = SlotsWorth(11);
  rig.Look(0.8);  // 2 is in its rest period
  EXPECT_EQ(rig.notes.back().vgpu, VgpuId{1});
  rig.Look(0.8);  // no vGPU outside of its rest period has idle slots
  EXPECT_EQ(rig.Shrunk(), 0U);
  for (int i = 0; i < 4; ++i) rig.Look(0.8);
  EXPECT_EQ(rig.Held(2), 7U);  // never below its use
  EXPECT_EQ(rig.Held(3), 11U);
}

TEST(Balloon, AboveTheHighLineTakesUsedSlotsToo) {
  BalloonRig rig(10);
  rig.Add(1, 3, 10);
  rig.Add(2, 4, 10);
  EXPECT_TRUE(rig.Ask(1, 6).granted());
  EXPECT_TRUE(rig.Ask(2, 8).granted());
  for (MemoryView& view : rig.views) view.in_use = SlotsWorth(10);
  rig.Look(1.01);
  EXPECT_EQ(rig.Held(2), 6U);
  EXPECT_EQ(rig.notes.back().kind, NoteKind::kShrunkOverhead);
  const SlotGrant refused = rig.Ask(1, 7);
  EXPECT_EQ(refused.note.kind, NoteKind::kOverhead);
  EXPECT_EQ(refused.again, rig.next);
  rig.Look(1.5);
  EXPECT_EQ(rig.Held(1), 4U);  // 2 has just shrunk
  rig.Look(1.5);
  EXPECT_EQ(rig.Held(2), 4U);
  rig.Look(1.5);
  EXPECT_EQ(rig.Held(1), 3U);
  rig.Look(1.5);
  EXPECT_EQ(rig.Shrunk(), 0U);
}

TEST(Balloon, TakesSharedSlotsFirst) {
  BalloonRig rig(40);
  rig.Add(1, 1, 40);
  rig.Add(2, 1, 40);
  rig.Add(3, 35, 40);
  ASSERT_TRUE(rig.Ask(1, 4).granted());
  ASSERT_TRUE(rig.Ask(2, 5).granted());
  ASSERT_FALSE(rig.balloon.arena().SharesAny(VgpuId{1}) && rig.balloon.arena().SharesAny(VgpuId{2}));
  rig.Look(1.5);
  EXPECT_EQ(rig.notes.back().vgpu, VgpuId{2});
  EXPECT_EQ(rig.notes.back().change, (SlotChange{.left = 0, .right = 2, .overlap = 2}));
}

TEST(Balloon, AnOscillatingVgpuStaysSmallForAWindow) {
  BalloonRig rig(8);
  rig.Add(1, 2, 8);
  Instant first{};
  for (int i = 0; i < 3; ++i) {
    rig.Look(0.1);
    const SlotGrant grant = rig.Ask(1, 8);
    if (i == 1) first = rig.now;
    EXPECT_TRUE(grant.granted());
    rig.Look(1.5);
    EXPECT_EQ(rig.Held(1), 6U);
  }
  rig.Look(0.1);
  const SlotGrant grant = rig.Ask(1, 8);
  EXPECT_EQ(grant.note.kind, NoteKind::kThrash);
  EXPECT_EQ(grant.again, first + seconds(10));
  while (rig.now < grant.again) {
    EXPECT_FALSE(rig.Ask(1, 8).granted());
    rig.Look(0.1);
  }
  EXPECT_TRUE(rig.Ask(1, 8).granted());
}

// -- Bounds ----------------------------------------------------------------------------------------------------------

TEST(Balloon, BoundsTakeEffectAtOnceAndUnderAnyOverhead) {
  BalloonRig rig(16);
  rig.Add(1, 2, 16);
  rig.Look(1.9);
  const auto raised = rig.balloon.SetBounds(VgpuId{1}, SlotsWorth(6), SlotsWorth(16));
  EXPECT_EQ(raised->kind, NoteKind::kBounds);
  EXPECT_EQ(raised->slots, 4U);
  EXPECT_EQ(rig.Held(1), 6U);
  EXPECT_EQ(rig.balloon.SetBounds(VgpuId{1}, SlotsWorth(1), SlotsWorth(3))->slots, 3U);
  EXPECT_EQ(rig.Held(1), 3U);
  EXPECT_EQ(rig.balloon.MinOf(VgpuId{1}), 1U);
  EXPECT_EQ(rig.balloon.MaxOf(VgpuId{1}), 3U);
}

TEST(Balloon, PartsOfSlotsAreRoundedUpLikeAFixedLimit) {
  BalloonRig rig(16);
  ASSERT_TRUE(rig.balloon.Add(VgpuId{1}, MiB(100), MiB(100)).has_value());
  EXPECT_EQ(rig.Held(1), 2U);
  EXPECT_EQ(rig.balloon.MaxOf(VgpuId{1}), 2U);
  ASSERT_TRUE(rig.balloon.Add(VgpuId{2}, MiB(1), MiB(100)).has_value());
  EXPECT_EQ(rig.balloon.MaxOf(VgpuId{2}), 2U);
  ASSERT_TRUE(rig.balloon.Add(VgpuId{3}, Bytes{}, MiB(2000)).has_value());
  EXPECT_EQ(rig.balloon.MaxOf(VgpuId{3}), 16U) << "all there are";
}

TEST(Balloon, RefusesInWordsAndChangesNothing) {
  BalloonRig rig(8);
  rig.Add(1, 4, 8);
  Balloon& balloon = rig.balloon;
  EXPECT_EQ(balloon.Add(VgpuId{1}, SlotsWorth(1), Bytes{}).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(balloon.Add(VgpuId{2}, SlotsWorth(9), Bytes{}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(balloon.Add(VgpuId{2}, SlotsWorth(2), SlotsWorth(1)).error().code, Errc::kInvalidArgument);
  rig.Add(2, 8, 8);  // 12 of the 16 that may be guaranteed
  const auto refused = balloon.Add(VgpuId{3}, SlotsWorth(5), Bytes{});
  EXPECT_EQ(refused.error().code, Errc::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("at most 4 can be"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(balloon.Add(VgpuId{3}, SlotsWorth(4), Bytes{}).has_value());
  EXPECT_EQ(balloon.SetBounds(VgpuId{1}, SlotsWorth(5), Bytes{}).error().code, Errc::kResourceExhausted);
  EXPECT_EQ(balloon.SetBounds(VgpuId{9}, SlotsWorth(1), Bytes{}).error().code, Errc::kNotFound);
  EXPECT_EQ(balloon.Ask(rig.now, VgpuId{9}, SlotsWorth(1)).error().code, Errc::kNotFound);
  EXPECT_EQ(balloon.Ask(rig.now, VgpuId{1}, Bytes{}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(balloon.Remove(VgpuId{9}).error().code, Errc::kNotFound);
  EXPECT_EQ(rig.Held(1), 4U);
  EXPECT_EQ(balloon.guaranteed(), 16U);
}

TEST(Balloon, TurnsAreTheLongerTheMoreThreadsWaitForCpus) {
  BalloonRig rig(8, {{"turn_copies", 4}, {"busy_copies", 16}});
  rig.Add(1, 1, 8);
  EXPECT_DOUBLE_EQ(rig.balloon.TurnCopies(), 4);
  rig.Look(1.0);  // overhead from copying only
  EXPECT_DOUBLE_EQ(rig.balloon.TurnCopies(), 4);
  rig.Look(1.5);
  EXPECT_NEAR(rig.balloon.TurnCopies(), 10, 1e-6);
  rig.Look(2.0);
  EXPECT_NEAR(rig.balloon.TurnCopies(), 16, 1e-6);
  BalloonRig other(8, {{"turn_copies", 40}, {"busy_copies", 16}});
  other.Add(1, 1, 8);
  other.Look(2.0);
  EXPECT_DOUBLE_EQ(other.balloon.TurnCopies(), 40) << "never shorter";
}

TEST(Balloon, ChecksItsParams) {
  EXPECT_EQ(CheckBalloonParams({{"low_line", 1.5}}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(CheckBalloonParams({{"lowline", 1}}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(CheckBalloonParams({})->size(), kBalloonParams.size());
}

TEST(Balloon, EachKindHasAName) {
  std::vector<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(NoteKind::kPressure); ++kind)
    names.push_back(NameOf(static_cast<NoteKind>(kind)));
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(std::ranges::count(names, "unknown"), 0);
}

}  // namespace
}  // namespace weir::core
