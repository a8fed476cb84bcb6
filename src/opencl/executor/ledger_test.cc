// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "opencl/executor/byte_range.h"

namespace weir::opencl {
namespace {

/// A ledger in an arbitrary state, built by its operations.
struct Shelf {
  Ledger ledger;
  std::deque<Held> items;
  std::int64_t now_ns = 0;

  Held& Add(std::uint64_t bytes, bool resident = true) {
    Held& item = items.emplace_back();
    item.bytes = bytes;
    ledger.Add(item, ++now_ns);
    ledger.SetResident(item, resident);
    return item;
  }
  static bool MayGo(const Held& item) { return item.resident && item.pins == 0 && !item.moving && !item.stuck; }
};

void Shake(Shelf& shelf) {
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i) {
    Held& item = shelf.Add(*rc::gen::inRange<std::uint64_t>(1, 100), *rc::gen::arbitrary<bool>());
    item.moving = *rc::gen::inRange(0, 8) == 0;
    item.stuck = *rc::gen::inRange(0, 8) == 0;
    if (*rc::gen::inRange(0, 4) == 0) shelf.ledger.Pin(item, shelf.now_ns);
  }
  if (shelf.items.empty()) return;
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i) {
    Held& item = shelf.items[*rc::gen::inRange<std::size_t>(0, shelf.items.size())];
    switch (*rc::gen::inRange(0, 3)) {
      case 0: shelf.ledger.Touch(item, ++shelf.now_ns); break;
      case 1: shelf.ledger.SetResident(item, !item.resident); break;
      default:
        if (item.pins > 0) shelf.ledger.Unpin(item, ++shelf.now_ns);
    }
  }
}

std::uint64_t SumOf(const std::vector<Held*>& items) {
  return std::accumulate(items.begin(), items.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Held* item) { return sum + item->bytes; });
}

TEST(Ledger, EvictsTheColdestFirst) {
  Shelf shelf;
  Held &first = shelf.Add(10), &second = shelf.Add(10), &third = shelf.Add(10);
  shelf.ledger.Touch(first, 100);
  EXPECT_EQ(shelf.ledger.Victims(15, {}), (std::vector<Held*>{&second, &third}));
  shelf.ledger.Pin(second, 101);
  EXPECT_EQ(shelf.ledger.Victims(5, {}), std::vector<Held*>{&third});
  Held* const spare[] = {&third};
  EXPECT_EQ(shelf.ledger.Victims(5, spare), std::vector<Held*>{&first});
}

TEST(Ledger, PromisedBuffersStayUntilTheyAreUsedOrExpire) {
  Shelf shelf;
  Held& item = shelf.Add(10);
  item.promised_ns = 50;
  EXPECT_TRUE(shelf.ledger.Victims(5, {}, 49).empty());
  EXPECT_EQ(shelf.ledger.Victims(5, {}, 50), std::vector<Held*>{&item});
  EXPECT_EQ(shelf.ledger.Victims(5, {}), std::vector<Held*>{&item});  // as for an order
  shelf.ledger.Pin(item, 10);
  shelf.ledger.Unpin(item, 11);
  EXPECT_EQ(shelf.ledger.Victims(5, {}, 12), std::vector<Held*>{&item});
}

TEST(Ledger, NoEvictionIsUseless) {
  Shelf shelf;
  shelf.Add(1);
  shelf.Add(2);
  Held& large = shelf.Add(100);
  EXPECT_EQ(shelf.ledger.Victims(50, {}), std::vector<Held*>{&large});
}

RC_GTEST_PROP(Ledger, VictimsSufficeOrAreAllEvictableBuffers, ()) {
  Shelf shelf;
  Shake(shelf);
  const auto excess = *rc::gen::inRange<std::uint64_t>(0, 1500);
  std::vector<Held*> spare;
  for (Held& item : shelf.items)
    if (*rc::gen::inRange(0, 5) == 0) spare.push_back(&item);
  const std::vector<Held*> victims = shelf.ledger.Victims(excess, spare);
  for (const Held* victim : victims) {
    RC_ASSERT(Shelf::MayGo(*victim));
    RC_ASSERT(std::ranges::find(spare, victim) == spare.end());
  }
  std::uint64_t all = 0;
  for (Held& item : shelf.items)
    if (Shelf::MayGo(item) && std::ranges::find(spare, &item) == spare.end()) all += item.bytes;
  if (all < excess) {
    RC_ASSERT(SumOf(victims) == all);
    return;
  }
  RC_ASSERT(SumOf(victims) >= excess);
  for (const Held* victim : victims) RC_ASSERT(SumOf(victims) - victim->bytes < excess);
}

// All items older than the youngest victim would not suffice.
RC_GTEST_PROP(Ledger, EvictsNoMoreRecentBufferThanNecessary, ()) {
  Shelf shelf;
  Shake(shelf);
  const auto excess = *rc::gen::inRange<std::uint64_t>(1, 1500);
  const std::vector<Held*> victims = shelf.ledger.Victims(excess, {});
  if (SumOf(victims) < excess) return;
  std::int64_t youngest_ns = 0;
  for (const Held* victim : victims) youngest_ns = std::max(youngest_ns, victim->used_ns);
  std::uint64_t older = 0;
  for (const Held& item : shelf.items)
    if (Shelf::MayGo(item) && item.used_ns < youngest_ns) older += item.bytes;
  RC_ASSERT(older < excess);
}

RC_GTEST_PROP(Ledger, AddsUp, ()) {
  Shelf shelf;
  Shake(shelf);
  std::uint64_t made = 0, pinned = 0, used = 0;
  const auto since_ns = *rc::gen::inRange<std::int64_t>(0, shelf.now_ns + 2);
  for (const Held& item : shelf.items) {
    made += item.bytes;
    if (item.pins > 0) pinned += item.bytes;
    if (item.pins > 0 || item.used_ns >= since_ns) used += item.bytes;
  }
  RC_ASSERT(shelf.ledger.made() == made);
  RC_ASSERT(shelf.ledger.pinned() == pinned);
  RC_ASSERT(shelf.ledger.UsedSince(since_ns) == used);
  for (Held& item : shelf.items) shelf.ledger.Remove(item);
  RC_ASSERT(shelf.ledger.made() == 0U && shelf.ledger.pinned() == 0U);
}

TEST(NextStepOf, ACommandRunsWhenItsBuffersAreResidentWithinTheLimit) {
  const Room room{.most = 100, .allowed = 50, .taken = 50};
  EXPECT_EQ(NextStep(room, {.all = 30}), Step::kGo);
  EXPECT_EQ(NextStep(room, {.all = 30, .missing = 10}), Step::kBring);
  EXPECT_EQ(NextStep(room, {.all = 51, .missing = 10}), Step::kWait);
  EXPECT_EQ(NextStep(room, {.all = 101, .missing = 10}), Step::kNever);
  EXPECT_EQ(NextStep(room, {.all = 30, .moving = true}), Step::kWait);
}

TEST(NextStepOf, DuringAnOrderOnlyCommandsWithoutNewBuffersRun) {
  const Room room{.most = 100, .allowed = 50, .taken = 80};
  EXPECT_EQ(NextStep(room, {.all = 30, .pinned_besides = 20}), Step::kGo);
  EXPECT_EQ(NextStep(room, {.all = 30, .pinned_besides = 21}), Step::kWait);
  EXPECT_EQ(NextStep(room, {.all = 30, .missing = 1}), Step::kWait);
}

RC_GTEST_PROP(NextStepOf, NoStepExceedsTheLimit, ()) {
  const auto number = rc::gen::inRange<std::uint64_t>(0, 100);
  const Room room{.most = *number, .allowed = *number, .taken = *number};
  Demand demand{.all = *number, .pinned_besides = *number, .moving = *rc::gen::arbitrary<bool>()};
  demand.missing = *rc::gen::inRange<std::uint64_t>(0, demand.all + 1);
  const Step step = NextStep(room, demand);
  if (step == Step::kGo) RC_ASSERT(room.taken <= room.allowed || demand.pinned_besides + demand.all <= room.allowed);
  if (step == Step::kBring) RC_ASSERT(demand.all <= room.allowed);
  RC_ASSERT((step == Step::kNever) == (demand.all > room.most));
}

TEST(HullOfABox, IsFromItsFirstByteToItsLast) {
  constexpr std::uint64_t kOrigin[] = {5, 0, 3}, kRegion[] = {10, 2, 2}, kEmpty[] = {0, 1, 1}, kHuge[] = {1, 1, ~0ULL};
  EXPECT_EQ(HullOfBox(8192, kOrigin, kRegion, 100, 1000), (ByteRange{3005, 4115}));
  EXPECT_EQ(HullOfBox(4000, kOrigin, kRegion, 100, 1000), (ByteRange{3005, 4000}));
  EXPECT_EQ(HullOfBox(8192, kOrigin, kRegion, 0, 0), (ByteRange{65, 105}));
  EXPECT_TRUE(HullOfBox(8192, kOrigin, kEmpty, 0, 0).empty());
  EXPECT_EQ(HullOfBox(8192, kOrigin, kHuge, 0, 0), (ByteRange{0, 8192}));
  EXPECT_EQ(HullOfBox(8192, kHuge, kRegion, 0, 0), (ByteRange{0, 8192}));
}

RC_GTEST_PROP(HullOfABox, HoldsEachByteOfIt, ()) {
  const auto small = rc::gen::inRange<std::uint64_t>(0, 6);
  const std::uint64_t origin[] = {*small, *small, *small}, region[] = {*small + 1, *small + 1, *small + 1};
  const std::uint64_t row = *rc::gen::inRange<std::uint64_t>(12, 20),
                      slice = row * *rc::gen::inRange<std::uint64_t>(12, 16);
  ByteRange bytes;
  for (std::uint64_t z = 0; z < region[2]; ++z)
    for (std::uint64_t y = 0; y < region[1]; ++y) {
      const std::uint64_t at = (origin[2] + z) * slice + (origin[1] + y) * row + origin[0];
      bytes.Cover({at, at + region[0]});
    }
  RC_ASSERT(HullOfBox(1 << 20, origin, region, row, slice) == bytes);
}

RC_GTEST_PROP(ByteRangeOf, CoversBothAndNoMore, ()) {
  const auto number = rc::gen::inRange<std::uint64_t>(0, 50);
  ByteRange range{*number, *number};
  const ByteRange before = range, other{*number, *number};
  range.Cover(other);
  for (std::uint64_t at = 0; at < 50; ++at) {
    const auto in = [at](const ByteRange& r) { return r.begin <= at && at < r.end; };
    if (in(before) || in(other)) RC_ASSERT(in(range));
  }
  RC_ASSERT(range.size() <= std::max(before.end, other.end));
}

}  // namespace
}  // namespace weir::opencl
