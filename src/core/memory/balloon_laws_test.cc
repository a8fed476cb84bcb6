// SPDX-License-Identifier: Apache-2.0
// Laws of a balloon, for any behaviour of its vGPUs and any forged figures.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "core/memory/balloon.h"
#include "tests/harness/balloon_rig.h"

namespace weir::core {
namespace {

using NoteKind = BalloonNote::Kind;

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
    // At first two seconds of unreported time are believed; afterwards at most the time that has passed.
    if (look <= 4) continue;
    EXPECT_LE(rig.balloon.copying(), 100.0) << look;
  }
}

// Otherwise the executor of one tenant could cause other vGPUs to lose slots, and their requests to be refused.
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
