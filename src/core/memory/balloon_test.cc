// SPDX-License-Identifier: Apache-2.0
#include "core/memory/balloon.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace weir::core {
namespace {

using NoteKind = BalloonNote::Kind;

Bytes SlotsWorth(std::uint32_t slots) { return Bytes{slots * kSlotBytes.count}; }

PolicyParams CheckedParams(const PolicyParams& given = {}) { return *CheckBalloonParams(given); }

/// A balloon for one CPU, and the observed behaviour of its vGPUs. f is the part of the time spent in copies, plus the
/// part that one thread waits for a CPU.
struct BalloonRig {
  explicit BalloonRig(std::uint32_t slots, const PolicyParams& params = {})
      : balloon(CheckedParams(params), {.slots = slots}) {
    See();
  }
  void Add(std::uint64_t id, std::uint32_t min, std::uint32_t max) {
    EXPECT_TRUE(balloon.Add(VgpuId{id}, SlotsWorth(min), SlotsWorth(max)).has_value());
    views.push_back({.id = VgpuId{id}, .threads = 1});
    now += milliseconds(500);  // a look that records the initial totals
    See();
  }
  MemoryView& ViewOf(std::uint64_t id) { return *std::ranges::find(views, VgpuId{id}, &MemoryView::id); }
  void See() { next = balloon.See(now, views, notes); }
  /// Advances by one look with f = `overhead`, in equal parts from all vGPUs.
  void Look(double overhead) {
    notes.clear();
    now += milliseconds(500);
    const double each = 0.5 / static_cast<double>(std::max<std::size_t>(views.size(), 1));
    for (MemoryView& view : views) {
      const Duration copied = FromSeconds(std::min(overhead, 1.0) * each),
                     stolen = FromSeconds(each * overhead) - copied;
      view.copying += copied;
      view.steal += stolen;
      view.elsewhere += milliseconds(500) - stolen;
    }
    See();
  }
  SlotGrant Ask(std::uint64_t id, std::uint32_t slots) { return *balloon.Ask(now, VgpuId{id}, SlotsWorth(slots)); }
  [[nodiscard]] std::uint32_t Held(std::uint64_t id) const { return balloon.arena().CountOf(VgpuId{id}); }
  [[nodiscard]] std::uint32_t Shrunk() const {
    std::uint32_t slots = 0;
    for (const BalloonNote& note : notes)
      if (note.kind == NoteKind::kShrunkIdle || note.kind == NoteKind::kShrunkOverhead) slots += note.slots;
    return slots;
  }

  Instant now = InstantFromNs(1'000'000'000);
  Instant next{};
  Balloon balloon;
  std::vector<MemoryView> views;
  std::vector<BalloonNote> notes;
};

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

TEST(Balloon, PartsOfSlotsAreRoundedInTheTenantsFavourForTheMinimum) {
  BalloonRig rig(16);
  ASSERT_TRUE(rig.balloon.Add(VgpuId{1}, MiB(100), MiB(100)).has_value());
  EXPECT_EQ(rig.Held(1), 2U);
  EXPECT_EQ(rig.balloon.MaxOf(VgpuId{1}), 2U);
  ASSERT_TRUE(rig.balloon.Add(VgpuId{2}, MiB(1), MiB(100)).has_value());
  EXPECT_EQ(rig.balloon.MaxOf(VgpuId{2}), 1U);
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

// -- Laws ------------------------------------------------------------------------------------------------------------

BalloonRig AnyBalloon() {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 60);
  BalloonRig rig(slots, {{"layout", *rc::gen::inRange(0, 2)}, {"sold_max", *rc::gen::inRange(1, 4)}});
  const int count = *rc::gen::inRange(1, 8);
  for (int i = 1; i <= count; ++i) {
    const auto min = *rc::gen::inRange<std::uint32_t>(0, slots + 1);
    const auto max = *rc::gen::inRange<std::uint32_t>(std::max(min, 1U), slots + 1);
    const VgpuId id{static_cast<std::uint64_t>(i)};
    const std::uint64_t before = rig.balloon.guaranteed();
    if (!rig.balloon.Add(id, SlotsWorth(min), SlotsWorth(max))) {
      RC_ASSERT(before + min > slots);  // a minimum that fits is never refused
      RC_ASSERT(!rig.balloon.arena().Knows(id));
      continue;
    }
    RC_ASSERT(rig.balloon.arena().CountOf(id) == min);
    rig.views.push_back({.id = id, .threads = 1});
  }
  rig.balloon.See(rig.now, rig.views, rig.notes);
  rig.Look(0);
  return rig;
}

void MustKeepBounds(const BalloonRig& rig) {
  const SlotArena& arena = rig.balloon.arena();
  for (const VgpuId id : arena.ids()) {
    RC_ASSERT(arena.CountOf(id) >= rig.balloon.MinOf(id));
    RC_ASSERT(arena.CountOf(id) <= rig.balloon.MaxOf(id));
    if (arena.layout() == SlotLayout::kContiguous) RC_ASSERT(arena.RangesOf(id).size() <= 1U);
  }
}

double AnyOverhead() { return *rc::gen::inRange(0, 2000) / 1000.0; }

std::uint64_t AnyIdOf(const BalloonRig& rig) { return (*rc::gen::elementOf(rig.views)).id.value; }

RC_GTEST_PROP(Balloon, KeepsEveryVgpuWithinItsBounds, ()) {
  BalloonRig rig = AnyBalloon();
  if (rig.views.empty()) return;
  const std::uint32_t slots = rig.balloon.arena().slots();
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t id = AnyIdOf(rig);
    const auto amount = *rc::gen::inRange<std::uint32_t>(1, slots + 10);
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
      case 1: static_cast<void>(rig.Ask(id, amount)); break;
      case 2:
        static_cast<void>(rig.balloon.SetBounds(VgpuId{id}, SlotsWorth(*rc::gen::inRange<std::uint32_t>(0, amount + 1)),
                                                SlotsWorth(amount)));
        break;
      default: rig.ViewOf(id).in_use = SlotsWorth(amount); rig.Look(AnyOverhead());
    }
    MustKeepBounds(rig);
  }
}

RC_GTEST_PROP(Balloon, WithLittleOverheadGrantsEveryAskWithinTheMaximum, ()) {
  BalloonRig rig = AnyBalloon();
  if (rig.views.empty()) return;
  for (int i = 0; i < 40; ++i) {
    if (*rc::gen::arbitrary<bool>()) rig.Look(AnyOverhead() / 4);
    const std::uint64_t id = AnyIdOf(rig);
    const std::uint32_t max = rig.balloon.MaxOf(VgpuId{id});
    const auto amount = *rc::gen::inRange<std::uint32_t>(1, max + 1);
    const SlotGrant grant = rig.Ask(id, amount);
    RC_ASSERT(grant.granted());
    RC_ASSERT(rig.Held(id) >= amount);
    RC_ASSERT(rig.Shrunk() == 0U);
  }
}

RC_GTEST_PROP(Balloon, WithMuchOverheadGrantsNoneAndShrinksByTwoUntilAllHaveTheirMinimum, ()) {
  BalloonRig rig = AnyBalloon();
  if (rig.views.empty()) return;
  for (int i = 0; i < 20; ++i) {  // in any state
    static_cast<void>(rig.Ask(AnyIdOf(rig), *rc::gen::inRange<std::uint32_t>(1, 60)));
    rig.Look(AnyOverhead());
  }
  while (true) {
    const std::uint64_t before = rig.balloon.arena().total(), least = rig.balloon.guaranteed();
    rig.Look(1.2 + AnyOverhead() / 4);
    const std::uint64_t after = rig.balloon.arena().total();
    RC_ASSERT(before - after == rig.Shrunk());
    if (before == least) {
      RC_ASSERT(after == before);
      return;
    }
    RC_ASSERT(rig.Shrunk() == 2U || (rig.Shrunk() == 1U && before - least >= 1U));
    for (const MemoryView& view : rig.views) {
      const std::uint32_t held = rig.Held(view.id.value);
      const SlotGrant grant = rig.Ask(view.id.value, held + 1);
      RC_ASSERT(!grant.granted());
      RC_ASSERT(rig.Held(view.id.value) == held);
    }
  }
}

RC_GTEST_PROP(Balloon, OscillatesABoundedNumberOfTimes, ()) {
  BalloonRig rig = AnyBalloon();
  if (rig.views.empty()) return;
  std::map<std::uint64_t, bool> shrunk;                 // its last change
  std::map<std::uint64_t, std::deque<Instant>> turned;  // times at which it grew after it had shrunk
  for (int i = 0; i < 150; ++i) {
    rig.Look(*rc::gen::element(0.2, 0.8, 1.5));
    for (const BalloonNote& note : rig.notes)
      if (note.kind != NoteKind::kPressure) shrunk[note.vgpu.value] = true;
    for (MemoryView& view : rig.views) {
      const std::uint64_t id = view.id.value;
      view.in_use = SlotsWorth(*rc::gen::inRange<std::uint32_t>(0, 60));
      const std::uint32_t held = rig.Held(id);
      static_cast<void>(rig.Ask(id, 60));
      if (rig.Held(id) == held || !std::exchange(shrunk[id], false)) continue;
      turned[id].push_back(rig.now);
      while (turned[id].front() + seconds(10) <= rig.now) turned[id].pop_front();
      RC_ASSERT(turned[id].size() <= 2U);
    }
  }
}

RC_GTEST_PROP(Balloon, AVgpuThatGaveUpSlotsIsSparedForAWhile, ()) {
  BalloonRig rig = AnyBalloon();
  if (rig.views.empty()) return;
  for (const MemoryView& view : rig.views) static_cast<void>(rig.Ask(view.id.value, 60));
  std::map<std::uint64_t, Instant> shrunk;
  for (int i = 0; i < 40; ++i) {
    for (MemoryView& view : rig.views) view.in_use = SlotsWorth(*rc::gen::inRange<std::uint32_t>(0, 60));
    rig.Look(0.8);
    for (const BalloonNote& note : rig.notes) {
      if (note.kind != NoteKind::kShrunkIdle) continue;
      const auto last = shrunk.find(note.vgpu.value);
      if (last != shrunk.end()) RC_ASSERT(rig.now - last->second >= seconds(2));
      RC_ASSERT(note.held >= note.used);
      shrunk[note.vgpu.value] = rig.now;
    }
    for (const auto& [id, when] : shrunk) {
      const SlotGrant grant = rig.Ask(id, 60);
      if (rig.now < when + seconds(2)) RC_ASSERT(grant.note.slots == 0U);
    }
  }
}

RC_GTEST_PROP(Balloon, DoesNotDependOnTheOrderOfVgpus, ()) {
  BalloonRig rig = AnyBalloon();
  if (rig.views.empty()) return;
  Balloon mirror = rig.balloon;
  std::vector<BalloonNote> mirrored;
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t id = AnyIdOf(rig);
    const auto amount = *rc::gen::inRange<std::uint32_t>(1, 60);
    rig.ViewOf(id).in_use = SlotsWorth(amount);
    const SlotGrant one = rig.Ask(id, amount), other = *mirror.Ask(rig.now, VgpuId{id}, SlotsWorth(amount));
    RC_ASSERT(one.note.kind == other.note.kind);
    rig.Look(AnyOverhead());
    const std::vector<MemoryView> turned(rig.views.rbegin(), rig.views.rend());
    mirror.See(rig.now, turned, mirrored);
    RC_ASSERT(std::ranges::equal(rig.balloon.arena().sharers(), mirror.arena().sharers()));
  }
}

// -- Forged figures --------------------------------------------------------------------------------------------------

TEST(BalloonOfForgedFigures, CopyTimeIsClampedToElapsedTime) {
  BalloonRig rig(8);
  rig.Add(1, 1, 4);
  for (int look = 0; look < 4; ++look) rig.Look(0);
  for (int look = 0; look < 40; ++look) {
    rig.ViewOf(1).copying += seconds(3600);
    rig.now += milliseconds(500);
    rig.See();
    // It had accumulated two seconds before; afterwards it gets at most all of the time.
    if (look <= 4) continue;
    EXPECT_LE(rig.balloon.copying(), 100.0) << look;
  }
}

// Otherwise one tenant's executor could take the slots of all others, and have their requests refused.
RC_GTEST_PROP(BalloonOfForgedFigures, OneForgingVgpuCannotPushOthersAboveTheHighLine, ()) {
  BalloonRig rig(16, {{"high_line", *rc::gen::inRange(1, 20) * 0.1}, {"low_line", 0.1}});
  const auto others = *rc::gen::inRange<std::uint64_t>(1, 4);
  for (std::uint64_t id = 1; id <= others + 1; ++id) rig.Add(id, 1, 16);
  const auto forged = [] { return Duration{*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50)}; };
  for (int look = 0; look < 8; ++look) {
    MemoryView& forger = rig.ViewOf(1);
    forger.copying += forged();
    forger.steal += forged();
    forger.elsewhere += forged();
    forger.threads = ~0U;
    rig.now += milliseconds(*rc::gen::inRange(500, 3000));
    rig.See();
    RC_ASSERT(rig.balloon.pressure() != MemoryPressure::kHigh);
    RC_ASSERT(rig.Ask(2, 2).note.kind != NoteKind::kOverhead);
  }
}

TEST(BalloonOfForgedFigures, WaitingThreadsAreClampedToTheCpus) {
  BalloonRig rig(8);
  rig.Add(1, 1, 4);
  rig.ViewOf(1).threads = ~0U;
  rig.ViewOf(1).steal += milliseconds(400);
  rig.ViewOf(1).elsewhere += milliseconds(100);
  rig.now += milliseconds(500);
  rig.See();
  EXPECT_NEAR(rig.balloon.steal(), 80.0, 1e-6);
}

TEST(BalloonOfForgedFigures, ALongCopyReportedAtItsEndCounts) {
  BalloonRig rig(8);
  rig.Add(1, 1, 4);
  for (int look = 0; look < 4; ++look) rig.Look(0);
  rig.ViewOf(1).copying += milliseconds(900);
  rig.now += milliseconds(500);
  rig.See();
  EXPECT_NEAR(rig.balloon.copying(), 180.0, 1e-6);
}

}  // namespace
}  // namespace weir::core
