// SPDX-License-Identifier: Apache-2.0
#include "core/placement/pair_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace weir::core {
namespace {

TEST(PairTable, UnobservedPairsAreUnknown) {
  PairTable table;
  EXPECT_EQ(table.Added(1, 2), PairTable::kUnknown);
  EXPECT_EQ(table.Added(0, 0), PairTable::kUnknown);
  table.Observe(1, 2, 3);
  EXPECT_EQ(table.Added(1, 2), 3);
  EXPECT_EQ(table.Added(2, 1), PairTable::kUnknown);
  EXPECT_EQ(table.Added(1, 1), PairTable::kUnknown);
  EXPECT_EQ(table.Added(1, 0), PairTable::kUnknown);
}

TEST(PairTable, IgnoresImpossibleObservations) {
  PairTable table;
  table.Observe(0, 1, 1);
  table.Observe(1, 0, 1);
  table.Observe(1, 2, std::nan(""));
  table.Observe(1, 2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(table.kinds(), 0U);
  table.Observe(1, 2, -0.5);  // company makes no run faster
  EXPECT_EQ(table.Added(1, 2), 0);
}

TEST(PairTable, ForgetsOldObservationsOfAPair) {
  PairTable table(std::exp2(-1.0 / 10));
  for (int i = 0; i < 100; ++i) table.Observe(1, 2, 5);
  table.Observe(3, 4, 7);
  for (int i = 0; i < 100; ++i) table.Observe(1, 2, 1);
  EXPECT_NEAR(table.Added(1, 2), 1, 0.01);
  EXPECT_EQ(table.Added(3, 4), 7);  // no newer observation of this pair
}

TEST(PairTable, EvictsTheLeastRecentlyLearnedKind) {
  PairTable table;
  for (std::uint64_t work = 1; work <= PairTable::kKindsMax; ++work) table.Observe(work, work, 1);
  table.Observe(1, 2, 4);
  table.Observe(1'000, 1, 9);
  EXPECT_EQ(table.kinds(), PairTable::kKindsMax);
  EXPECT_EQ(table.Added(1'000, 1), 9);
  EXPECT_EQ(table.Added(1, 2), 4);
  EXPECT_EQ(table.PlaceOf(3), PairTable::kKindsMax);
  EXPECT_EQ(table.Added(1'000, 1'000), PairTable::kUnknown);  // nothing about 3 is left
}

RC_GTEST_PROP(PairTableLaws, IsTheMeanOfEachPairsObservations, ()) {
  PairTable table;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::pair<double, int>> seen;
  const int steps = *rc::gen::inRange(0, 100);
  for (int step = 0; step < steps; ++step) {
    // Works that often have the same position in the hash table.
    const auto draw = [] { return static_cast<std::uint64_t>(*rc::gen::inRange(1, 40)) << *rc::gen::element(0, 32); };
    const std::uint64_t work = draw(), beside = draw();
    const double added = *rc::gen::inRange(0, 1'000) / 10.0;
    table.Observe(work, beside, added);
    auto& [sum, count] = seen[{work, beside}];
    sum += added;
    ++count;
    for (const auto& [pair, of] : seen)
      RC_ASSERT(std::abs(table.Added(pair.first, pair.second) - of.first / of.second) < 1e-3);
  }
  RC_ASSERT(table.pairs() == seen.size());
}

}  // namespace
}  // namespace weir::core
