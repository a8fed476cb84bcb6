// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/arena.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::opencl::icd {
namespace {

constexpr std::uint64_t kPage = proto::cl::kArenaAlignment;

TEST(ArenaRanges, TakesTheSmallestRangeThatFits) {
  ArenaRanges arena(10 * kPage);
  const auto a = arena.Take(3 * kPage), b = arena.Take(kPage), c = arena.Take(2 * kPage), d = arena.Take(kPage);
  ASSERT_TRUE(a && b && c && d);
  arena.GiveBack(*a, 3 * kPage);
  arena.GiveBack(*c, 2 * kPage);  // free: 3 pages at 0, 2 at 4, 3 at 7
  EXPECT_EQ(arena.Take(2 * kPage), c);
  EXPECT_EQ(arena.Take(3 * kPage), a);
}

TEST(ArenaRanges, RefusesWhatNoArenaHas) {
  ArenaRanges arena(4 * kPage);
  EXPECT_FALSE(arena.Take(4 * kPage + 1));
  EXPECT_FALSE(arena.Take(UINT64_MAX));
  EXPECT_FALSE(ArenaRanges(kPage - 1).Take(1));
  EXPECT_TRUE(arena.Take(0)) << "takes a page, so that no two are at the same place";
}

TEST(ArenaRanges, MayBeginAnywhere) {
  ArenaRanges arena(4 * kPage, 2 * kPage + 1);
  EXPECT_EQ(arena.free_bytes(), 3 * kPage) << "whole pages only";
  EXPECT_EQ(arena.Take(3 * kPage), 3 * kPage);
  EXPECT_FALSE(arena.Take(1));
  EXPECT_FALSE(ArenaRanges(kPage, 1).Take(1));
}

/// Whatever is allocated and freed, in any order: ranges never overlap, lie inside, and adjacent free ranges are
/// merged.
RC_GTEST_PROP(ArenaRanges, KeepsItsLaws, ()) {
  const auto pages = *rc::gen::inRange<std::uint64_t>(1, 64);
  ArenaRanges arena(pages * kPage);
  std::map<std::uint64_t, std::uint64_t> taken;
  const auto steps = *rc::gen::container<std::vector<std::pair<bool, std::uint32_t>>>(
      rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange<std::uint32_t>(0, 20 * kPage)));
  for (const auto& [take, number] : steps) {
    if (take) {
      const auto offset = arena.Take(number);
      if (!offset) continue;
      const std::uint64_t end = *offset + ArenaRanges::Rounded(number);
      RC_ASSERT((*offset % kPage == 0 && end <= pages * kPage));
      const auto after = taken.lower_bound(*offset);
      // In parentheses, because otherwise both sides are evaluated
      RC_ASSERT((after == taken.end() || after->first >= end));
      RC_ASSERT((after == taken.begin() ||
                 std::prev(after)->first + ArenaRanges::Rounded(std::prev(after)->second) <= *offset));
      taken.emplace(*offset, number);
    } else if (!taken.empty()) {
      const auto range = std::next(taken.begin(), number % taken.size());
      arena.GiveBack(range->first, range->second);
      taken.erase(range);
    }
    std::uint64_t used = 0;
    for (const auto& [offset, bytes] : taken) used += ArenaRanges::Rounded(bytes);
    RC_ASSERT(arena.free_bytes() == pages * kPage - used);
    RC_ASSERT(arena.free_ranges() <= taken.size() + 1);
  }
  for (const auto& [offset, bytes] : taken) arena.GiveBack(offset, bytes);
  RC_ASSERT(arena.free_ranges() == 1);
  RC_ASSERT(arena.Take(pages * kPage).has_value());
}

}  // namespace
}  // namespace weir::opencl::icd
