// SPDX-License-Identifier: Apache-2.0
#include "core/memory/slot_arena.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

namespace weir::core {
namespace {

/// gBalloon, Fig. 4; slots are counted from 0.
SlotArena Figure4() {
  SlotArena arena(5);
  const std::array<SlotRange, 4> places{{{0, 2}, {2, 2}, {3, 2}, {2, 1}}};
  for (std::size_t i = 0; i < places.size(); ++i)
    EXPECT_TRUE(arena.AddAt(VgpuId{i + 1}, std::span(&places[i], 1)).has_value());
  return arena;
}

TEST(SlotArena, ExpandsFigure4sVgpu4ByTwoToTheLeft) {
  SlotArena arena = Figure4();
  EXPECT_EQ(*arena.Expand(VgpuId{4}, 2), (SlotChange{.left = 2, .right = 0, .overlap = 2}));
  EXPECT_EQ(arena.RangesOf(VgpuId{4}), (std::vector<SlotRange>{{0, 3}}));
}

TEST(SlotArena, ReducesFigure4sVgpu3BySlot4AndNotSlot5) {
  SlotArena arena = Figure4();
  EXPECT_EQ(*arena.Reduce(VgpuId{3}, 1), (SlotChange{.left = 1, .right = 0, .overlap = 1}));
  EXPECT_EQ(arena.RangesOf(VgpuId{3}), (std::vector<SlotRange>{{4, 1}}));
}

TEST(SlotArena, OfEqualSplitsTakesAndGivesAtTheRight) {
  SlotArena arena(9);
  const SlotRange middle{3, 3};
  ASSERT_TRUE(arena.AddAt(VgpuId{1}, std::span(&middle, 1)));
  EXPECT_EQ(*arena.Expand(VgpuId{1}, 2), (SlotChange{.left = 0, .right = 2}));
  EXPECT_EQ(*arena.Reduce(VgpuId{1}, 3), (SlotChange{.left = 0, .right = 3}));
}

TEST(SlotArena, StaysOnTheDeviceAtBothEnds) {
  SlotArena arena(6);
  ASSERT_TRUE(arena.Add(VgpuId{1}, 4));
  EXPECT_EQ(*arena.Expand(VgpuId{1}, 2), (SlotChange{.left = 0, .right = 2}));
  EXPECT_FALSE(arena.Expand(VgpuId{1}, 1).has_value());
  EXPECT_EQ(arena.CountOf(VgpuId{1}), 6U);
}

TEST(SlotArena, FirstPlacesLeaveRoomToGrow) {
  SlotArena arena(54);  // gBalloon, section 4: 384 MB of 3,456 MB each, up to 1,024 MB
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(arena.Add(VgpuId{id}, 6, 16));
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(arena.Expand(VgpuId{id}, 10)->overlap, 0U);
  EXPECT_EQ(arena.OverlapOf(VgpuId{2}), 0U);
}

TEST(SlotArena, SharingOfStatic384MbBeginsWithTheTenth) {  // gBalloon, section 2.2 and Fig. 2
  SlotArena arena(54);
  for (std::uint64_t id = 1; id <= 9; ++id) ASSERT_TRUE(arena.Add(VgpuId{id}, 6));
  EXPECT_EQ(std::ranges::max(arena.sharers()), 1U);
  ASSERT_TRUE(arena.Add(VgpuId{10}, 6));
  EXPECT_EQ(arena.OverlapOf(VgpuId{10}), 6U);
  EXPECT_EQ(arena.SharedOf(VgpuId{10}), 6U);
}

TEST(SlotArena, ScatteredTakesTheLeastSharedAndGivesTheMostShared) {
  SlotArena arena(6, SlotLayout::kScattered);
  const std::array<SlotRange, 2> apart{{{0, 1}, {4, 1}}};
  const SlotRange low{0, 3};
  ASSERT_TRUE(arena.AddAt(VgpuId{1}, apart));
  ASSERT_TRUE(arena.AddAt(VgpuId{2}, std::span(&low, 1)));  // sharers: 2 1 1 0 1 0
  ASSERT_TRUE(arena.Add(VgpuId{3}, 2));
  EXPECT_EQ(arena.RangesOf(VgpuId{3}), (std::vector<SlotRange>{{3, 1}, {5, 1}}));
  EXPECT_EQ(arena.Expand(VgpuId{3}, 2)->overlap, 2U);
  EXPECT_EQ(arena.RangesOf(VgpuId{3}), (std::vector<SlotRange>{{1, 3}, {5, 1}}));
  EXPECT_EQ(arena.Reduce(VgpuId{2}, 2)->overlap, 2U);  // slots 0, 1 and 2 have two holders; the last ones are given up
  EXPECT_EQ(arena.RangesOf(VgpuId{2}), (std::vector<SlotRange>{{0, 1}}));
  EXPECT_EQ(arena.HoldersOf(0), (std::vector<VgpuId>{VgpuId{1}, VgpuId{2}}));
}

TEST(SlotArena, RefusesInWordsAndChangesNothing) {
  for (const SlotLayout layout : {SlotLayout::kContiguous, SlotLayout::kScattered}) {
    SlotArena arena(8, layout);
    ASSERT_TRUE(arena.Add(VgpuId{1}, 3));
    const auto before = arena.RangesOf(VgpuId{1});
    const std::array<SlotRange, 2> crossed{{{3, 2}, {4, 1}}};
    const SlotRange outside{7, 2};
    const SlotRange wrapping{std::numeric_limits<std::uint32_t>::max(), std::numeric_limits<std::uint32_t>::max()};
    EXPECT_EQ(arena.Expand(VgpuId{1}, 6).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.Expand(VgpuId{1}, std::numeric_limits<std::uint32_t>::max()).error().code, Errc::kInvalidArgument);
    EXPECT_NE(arena.Expand(VgpuId{1}, 6).error().message.find("the device has 8"), std::string::npos);
    EXPECT_EQ(arena.Expand(VgpuId{1}, 0).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.Reduce(VgpuId{1}, 4).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.Reduce(VgpuId{1}, 0).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.Expand(VgpuId{2}, 1).error().code, Errc::kNotFound);
    EXPECT_EQ(arena.Reduce(VgpuId{2}, 1).error().code, Errc::kNotFound);
    EXPECT_EQ(arena.Remove(VgpuId{2}).error().code, Errc::kNotFound);
    EXPECT_EQ(arena.Add(VgpuId{1}, 1).error().code, Errc::kAlreadyExists);
    EXPECT_EQ(arena.Add(VgpuId{2}, 9).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.Add(VgpuId{}, 1).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.AddAt(VgpuId{2}, crossed).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.AddAt(VgpuId{2}, std::span(&outside, 1)).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.AddAt(VgpuId{2}, std::span(&wrapping, 1)).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(arena.RangesOf(VgpuId{1}), before);
    EXPECT_EQ(arena.total(), 3U);
    EXPECT_EQ(arena.ids(), std::vector<VgpuId>{VgpuId{1}});
  }
}

TEST(SlotArena, AVgpuThatGaveUpAllSlotsIsPlacedAgain) {
  for (const SlotLayout layout : {SlotLayout::kContiguous, SlotLayout::kScattered}) {
    SlotArena arena(8, layout);
    ASSERT_TRUE(arena.Add(VgpuId{1}, 5));
    ASSERT_TRUE(arena.Add(VgpuId{2}, 3));
    EXPECT_EQ(arena.Reduce(VgpuId{2}, 3)->overlap, 0U);
    EXPECT_EQ(arena.CountOf(VgpuId{2}), 0U);
    EXPECT_TRUE(arena.RangesOf(VgpuId{2}).empty());
    EXPECT_EQ(arena.Expand(VgpuId{2}, 3)->overlap, 0U);
  }
}

TEST(SlotArena, CountsBytesInWholeSlots) {
  const SlotArena arena(4, SlotLayout::kContiguous, MiB(2));
  EXPECT_EQ(arena.SlotsFor(Bytes{0}), 0U);
  EXPECT_EQ(arena.SlotsFor(Bytes{1}), 1U);
  EXPECT_EQ(arena.SlotsFor(MiB(2)), 1U);
  EXPECT_EQ(arena.SlotsFor(Bytes{MiB(2).count + 1}), 2U);
  EXPECT_EQ(arena.SlotsFor(Bytes{std::numeric_limits<std::uint64_t>::max()}),
            std::numeric_limits<std::uint32_t>::max());
}

TEST(SlotArena, ADeviceWithoutSlotsHoldsNothing) {
  for (const SlotLayout layout : {SlotLayout::kContiguous, SlotLayout::kScattered}) {
    SlotArena arena(0, layout);
    EXPECT_TRUE(arena.Add(VgpuId{1}, 0).has_value());
    EXPECT_FALSE(arena.Expand(VgpuId{1}, 1).has_value());
    EXPECT_EQ(arena.total(), 0U);
  }
}

// -- Laws, against sets of slots -------------------------------------------------------------------------------------

struct HeldRange {
  VgpuId id;
  SlotRange range;
};

/// Up to nine vGPUs anywhere on a device of up to 40 slots.
std::vector<HeldRange> AnyRanges(std::uint32_t slots) {
  std::vector<HeldRange> held;
  const int count = *rc::gen::inRange(1, 10);
  for (int i = 0; i < count; ++i) {
    const auto length = *rc::gen::inRange<std::uint32_t>(1, slots + 1);
    held.push_back(
        {VgpuId{static_cast<std::uint64_t>(i) + 1}, {*rc::gen::inRange<std::uint32_t>(0, slots - length + 1), length}});
  }
  return held;
}

SlotArena ArenaOf(std::uint32_t slots, SlotLayout layout, const std::vector<HeldRange>& held) {
  SlotArena arena(slots, layout);
  for (const HeldRange& one : held) RC_ASSERT(arena.AddAt(one.id, std::span(&one.range, 1)).has_value());
  return arena;
}

/// The paper's `count`, computed directly: number of other holders, summed over the slots of [from, to).
std::uint64_t OverlapByHand(const std::vector<HeldRange>& held, VgpuId but, std::uint32_t from, std::uint32_t to) {
  std::uint64_t count = 0;
  for (const HeldRange& one : held)
    for (std::uint32_t slot = from; slot < to; ++slot)
      if (one.id != but && slot >= one.range.first && slot < one.range.first + one.range.count) ++count;
  return count;
}

void MustAddUp(const SlotArena& arena) {
  std::vector<std::uint32_t> sharers(arena.slots(), 0);
  std::uint64_t total = 0;
  for (const VgpuId id : arena.ids()) {
    std::uint32_t count = 0;
    arena.ForEachSlot(id, [&](std::uint32_t slot) {
      RC_ASSERT(slot < arena.slots());
      RC_ASSERT(arena.Holds(id, slot));
      ++sharers[slot];
      ++count;
    });
    RC_ASSERT(count == arena.CountOf(id));
    if (arena.layout() == SlotLayout::kContiguous) RC_ASSERT(arena.RangesOf(id).size() <= 1U);
    total += count;
  }
  RC_ASSERT(std::ranges::equal(sharers, arena.sharers()));
  RC_ASSERT(total == arena.total());
}

RC_GTEST_PROP(SlotArena, ExpansionTakesTheSplitWithTheLeastOverlapOfAll, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 41);
  const std::vector<HeldRange> held = AnyRanges(slots);
  const HeldRange& one = *rc::gen::elementOf(held);
  const std::uint32_t first = one.range.first, end = first + one.range.count;
  const auto more = *rc::gen::inRange<std::uint32_t>(1, slots + 2);
  SlotArena arena = ArenaOf(slots, SlotLayout::kContiguous, held);
  const auto change = arena.Expand(one.id, more);
  RC_ASSERT(change.has_value() == (one.range.count + more <= slots));
  if (!change) return;
  std::optional<SlotChange> best;
  for (std::uint32_t left = 0; left <= more; ++left) {
    if (left > first || end + more - left > slots) continue;
    const std::uint64_t overlap =
        OverlapByHand(held, one.id, first - left, first) + OverlapByHand(held, one.id, end, end + more - left);
    if (!best || overlap < best->overlap) best = SlotChange{left, more - left, overlap};
  }
  RC_ASSERT(*change == *best);
  RC_ASSERT(change->left + change->right == more);
  RC_ASSERT(arena.RangesOf(one.id) == (std::vector<SlotRange>{{first - best->left, one.range.count + more}}));
  MustAddUp(arena);
}

RC_GTEST_PROP(SlotArena, ReductionGivesUpTheEndsThatOverlapMost, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 41);
  const std::vector<HeldRange> held = AnyRanges(slots);
  const HeldRange& one = *rc::gen::elementOf(held);
  const std::uint32_t first = one.range.first, end = first + one.range.count;
  const auto less = *rc::gen::inRange<std::uint32_t>(1, one.range.count + 1);
  SlotArena arena = ArenaOf(slots, SlotLayout::kContiguous, held);
  const SlotChange change = *arena.Reduce(one.id, less);
  std::optional<SlotChange> best;
  for (std::uint32_t left = 0; left <= less; ++left) {
    const std::uint64_t overlap =
        OverlapByHand(held, one.id, first, first + left) + OverlapByHand(held, one.id, end - (less - left), end);
    if (!best || overlap > best->overlap) best = SlotChange{left, less - left, overlap};
  }
  RC_ASSERT(change == *best);
  RC_ASSERT(arena.CountOf(one.id) == one.range.count - less);
  MustAddUp(arena);
}

RC_GTEST_PROP(SlotArena, ScatteredOverlapsNoMoreThanAnyOtherChoice, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 41);
  const std::vector<HeldRange> held = AnyRanges(slots);
  const HeldRange& one = *rc::gen::elementOf(held);
  SlotArena arena = ArenaOf(slots, SlotLayout::kScattered, held);
  std::vector<std::uint32_t> free, mine;
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    (arena.Holds(one.id, slot) ? mine : free).push_back(arena.sharers()[slot]);
  std::ranges::sort(free);
  std::ranges::sort(mine, std::greater{});
  SlotArena other = arena;
  if (!free.empty()) {
    const auto more = *rc::gen::inRange<std::uint32_t>(1, static_cast<std::uint32_t>(free.size()) + 1);
    RC_ASSERT(arena.Expand(one.id, more)->overlap == std::accumulate(free.begin(), free.begin() + more, 0ULL));
    MustAddUp(arena);
  }
  const auto less = *rc::gen::inRange<std::uint32_t>(1, static_cast<std::uint32_t>(mine.size()) + 1);
  RC_ASSERT(other.Reduce(one.id, less)->overlap == std::accumulate(mine.begin(), mine.begin() + less, 0ULL) - less);
  MustAddUp(other);
}

RC_GTEST_PROP(SlotArena, AFirstPlaceOverlapsNoMoreThanAnyOther, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 41);
  const std::vector<HeldRange> held = AnyRanges(slots);
  const auto count = *rc::gen::inRange<std::uint32_t>(1, slots + 1);
  const VgpuId newcomer{99};
  SlotArena arena = ArenaOf(slots, SlotLayout::kContiguous, held);
  RC_ASSERT(arena.Add(newcomer, count, *rc::gen::inRange<std::uint32_t>(0, 50)).has_value());
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t first = 0; first + count <= slots; ++first)
    least = std::min(least, OverlapByHand(held, newcomer, first, first + count));
  RC_ASSERT(arena.OverlapOf(newcomer) == least);
  MustAddUp(arena);
}

RC_GTEST_PROP(SlotArena, ExpansionAndReductionByTurnsComeToAnEnd, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 41);
  const auto layout = static_cast<SlotLayout>(*rc::gen::inRange(0, 2));
  const std::vector<HeldRange> held = AnyRanges(slots);
  const HeldRange& one = *rc::gen::elementOf(held);
  SlotArena arena = ArenaOf(slots, layout, held);
  // Expand takes the least overlap and Reduce gives up the most, so repetition never increases the overlap.
  std::uint64_t overlap = arena.OverlapOf(one.id);
  if (one.range.count == slots) return;
  const auto amount = *rc::gen::inRange<std::uint32_t>(1, slots - one.range.count + 1);
  for (int round = 0; round < 2000; ++round) {
    const auto before = arena.RangesOf(one.id);
    RC_ASSERT(arena.Expand(one.id, amount).has_value());
    RC_ASSERT(arena.Reduce(one.id, amount).has_value());
    RC_ASSERT(arena.CountOf(one.id) == one.range.count);
    RC_ASSERT(arena.OverlapOf(one.id) <= overlap);
    overlap = arena.OverlapOf(one.id);
    if (arena.RangesOf(one.id) == before) return;  // a fixed point
  }
  RC_FAIL("does not settle");
}

RC_GTEST_PROP(SlotArena, DoesNotDependOnOrderOrIdsOfOthers, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 41);
  const auto layout = static_cast<SlotLayout>(*rc::gen::inRange(0, 2));
  const std::vector<HeldRange> held = AnyRanges(slots);
  std::vector<HeldRange> renamed(held.rbegin(), held.rend());
  for (HeldRange& other : renamed) other.id.value = 1000 - other.id.value;
  SlotArena arena = ArenaOf(slots, layout, held), mirror = ArenaOf(slots, layout, renamed);
  for (int i = 0; i < 5; ++i) {
    const VgpuId id = (*rc::gen::elementOf(held)).id, other{1000 - id.value};
    const auto amount = *rc::gen::inRange<std::uint32_t>(1, slots + 1);
    const bool more = *rc::gen::arbitrary<bool>();
    const auto change = more ? arena.Expand(id, amount) : arena.Reduce(id, amount);
    const auto mirrored = more ? mirror.Expand(other, amount) : mirror.Reduce(other, amount);
    RC_ASSERT(change.has_value() == mirrored.has_value());
    if (change) RC_ASSERT(*change == *mirrored);
    RC_ASSERT(arena.RangesOf(id) == mirror.RangesOf(other));
  }
  RC_ASSERT(std::ranges::equal(arena.sharers(), mirror.sharers()));
}

RC_GTEST_PROP(SlotArena, CountsStayConsistent, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 200);
  SlotArena arena(slots, static_cast<SlotLayout>(*rc::gen::inRange(0, 2)));
  const int steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    const VgpuId id{*rc::gen::inRange<std::uint64_t>(1, 8)};
    const auto amount = *rc::gen::inRange<std::uint32_t>(0, slots + 2);
    switch (*rc::gen::inRange(0, 5)) {
      case 0: static_cast<void>(arena.Add(id, amount, amount * 2)); break;
      case 1: static_cast<void>(arena.Remove(id)); break;
      case 2: static_cast<void>(arena.Reduce(id, amount)); break;
      default: static_cast<void>(arena.Expand(id, amount)); break;
    }
    MustAddUp(arena);
  }
}

}  // namespace
}  // namespace weir::core
