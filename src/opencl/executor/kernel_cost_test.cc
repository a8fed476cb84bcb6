// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/kernel_cost.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::opencl {
namespace {

TEST(KernelCost, FromTheSecondBatchOnItIsKnown) {
  KernelCost cost;
  EXPECT_FALSE(cost.known());
  cost.Learn(1e9, 1'000);  // includes compilation
  EXPECT_FALSE(cost.known());
  cost.Learn(5'000, 1'000);
  EXPECT_TRUE(cost.known());
  EXPECT_EQ(cost.PredictNs(1'000'000), 5'000'000);
  EXPECT_EQ(cost.ItemsIn(5'000'000), 1'000'000U);
}

// Of two batches that end together, the first is charged the time of both.
TEST(KernelCost, TimeAttributedToANeighbourKeepsTheMeanRight) {
  KernelCost cost;
  for (int i = 0; i < 200; ++i) {
    cost.Learn(i % 2 == 0 ? 4'000 : 0, 1'000);
    if (i > 20) {
      EXPECT_NEAR(static_cast<double>(cost.PredictNs(1'000)), 2'000, 300) << i;
    }
  }
}

TEST(KernelCost, OtherWorkIsLearnedAtOnceWhenItIsLonger) {
  KernelCost cost;
  for (int i = 0; i < 100; ++i) cost.Learn(1'000, 100'000);
  cost.Learn(1'000'000, 1'000);
  EXPECT_EQ(cost.PredictNs(1'000), 1'000'000);
}

TEST(KernelCost, PredictionsAreBetweenZeroAndADay) {
  KernelCost cost;
  cost.Learn(0, 1);
  cost.Learn(0, 1);
  EXPECT_GE(cost.ItemsIn(1), 1U);
  cost.Learn(1e18, 1);
  EXPECT_EQ(cost.PredictNs(~std::uint64_t{0}), 86'400'000'000'000);
  EXPECT_EQ(cost.ItemsIn(1), 1U);
}

RC_GTEST_PROP(KernelCost, PredictsWhatNeverChanges, ()) {
  const double each = *rc::gen::inRange(1, 100'000);
  KernelCost cost;
  for (int i = 0; i < 20; ++i) {
    const double items = *rc::gen::inRange(1, 1'000'000);
    cost.Learn(each * items, items);
  }
  RC_ASSERT(std::abs(static_cast<double>(cost.PredictNs(1'000)) - each * 1'000) <= each * 1'000 * 1e-9 + 1);
}

TEST(LearnCosts, EachKernelGetsItsPartOfTheBatch) {
  const auto a = std::make_shared<KernelCost>(), b = std::make_shared<KernelCost>();
  for (int i = 0; i < 2; ++i)
    LearnCosts({{.cost = a, .items = 10, .predicted_ns = 300}, {.cost = b, .items = 10, .predicted_ns = 100}}, 400,
               4'000);
  EXPECT_EQ(a->PredictNs(10), 3'000);
  EXPECT_EQ(b->PredictNs(10), 1'000);
}

}  // namespace
}  // namespace weir::opencl
