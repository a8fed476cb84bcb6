// SPDX-License-Identifier: Apache-2.0
#include "proto/executor_statistics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "proto/gate_layout.h"

namespace weir::proto {
namespace {

TEST(ExecutorStatistics, SumsOfForgedReportsAreSaturated) {
  ExecutorStatistics forged;
  forged.resident_slots = ~0U;
  forged.threads = ~0U;
  forged.need = forged.in_use = forged.made = Bytes{~0ULL};
  forged.switch_copy = forged.steal = forged.elsewhere = Duration{1LL << 61};
  forged.evictions = ~0ULL;
  ExecutorStatistics all;
  for (int i = 0; i < 5; ++i) Combine(all, forged);
  EXPECT_EQ(all.resident_slots, ~0U);
  EXPECT_EQ(all.threads, ~0U);
  EXPECT_EQ(all.need.count, ~0ULL);
  EXPECT_EQ(all.steal, Duration::max());
  EXPECT_EQ(all.switch_copy, Duration::max());
  EXPECT_EQ(all.evictions, ~0ULL);
}

TEST(ExecutorStatistics, SeveralExecutorsOfAVgpuAreAddedUp) {
  ExecutorStatistics one;
  one.resident_slots = 2;
  one.need = MiB(100);
  one.must = MiB(50);
  one.steal = milliseconds(3);
  ExecutorStatistics all;
  Combine(all, one);
  one.must = MiB(70);
  Combine(all, one);
  EXPECT_EQ(all.resident_slots, 4U);
  EXPECT_EQ(all.need, MiB(200));
  EXPECT_EQ(all.must, MiB(70)) << "the executors' commands wait one after the other";
  EXPECT_EQ(all.steal, milliseconds(6));
}

TEST(ExecutorStatistics, EachHasAWordAndANameOfItsOwn) {
  auto region = std::make_unique<ProcessRegion>();
  std::set<const void*> words;
  std::set<std::string> names;
  std::size_t fields = 0, named = 0;
  ExecutorStatistics::Fields([&](const StatisticInfo& info, auto, auto word_of) {
    ++fields;
    words.insert(&word_of(*region));
    if (info.name != nullptr) ++named, names.insert(info.name);
  });
  EXPECT_EQ(fields, 20U);
  EXPECT_EQ(words.size(), fields);
  EXPECT_EQ(names.size(), named);
}

// A member that Fields() leaves out would not reach the daemon. Sizes differ if one is added here only.
TEST(ExecutorStatistics, EveryMemberIsAField) {
  std::size_t bytes = sizeof ExecutorStatistics::order_done;
  ExecutorStatistics::Fields(
      [&](const StatisticInfo&, auto member, auto) { bytes += sizeof(std::declval<ExecutorStatistics>().*member); });
  EXPECT_LT(sizeof(ExecutorStatistics) - bytes, alignof(ExecutorStatistics)) << "more than the padding is missing";
}

}  // namespace
}  // namespace weir::proto
