// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/host_budget.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace weir::opencl {
namespace {

TEST(HostBudget, BytesOfASessionCountTowardsTheExecutorsLimit) {
  const auto all = std::make_shared<HostBudget>(100);
  const auto one = std::make_shared<HostBudget>(60, all), other = std::make_shared<HostBudget>(60, all);
  EXPECT_TRUE(one->Take(60));
  EXPECT_FALSE(one->Take(1));
  EXPECT_FALSE(other->Take(41));
  EXPECT_EQ(other->used(), 0U);  // a refusal by the executor's budget is not counted towards the session
  EXPECT_TRUE(other->Has(40));
  EXPECT_TRUE(other->Take(40));
  EXPECT_FALSE(other->Has(1));
  one->Return(60);
  EXPECT_EQ(all->used(), 40U);
}

TEST(HostBudget, AChargeReturnsWhatItTook) {
  const auto budget = std::make_shared<HostBudget>(10);
  {
    HostCharge charge;
    EXPECT_TRUE(charge.Take(budget, 4));
    EXPECT_TRUE(charge.Take(budget, 5));
    EXPECT_FALSE(charge.Take(budget, 2));
    EXPECT_EQ(budget->used(), 9U);
  }
  EXPECT_EQ(budget->used(), 0U);
}

RC_GTEST_PROP(HostBudgetLaws, NeverExceedsTheBudget, (std::vector<std::uint64_t> takes)) {
  HostBudget budget(1000);
  unsigned __int128 taken = 0;
  for (const std::uint64_t bytes : takes)
    if (budget.Take(bytes)) taken += bytes;
  RC_ASSERT(taken <= 1000U);
  RC_ASSERT(budget.used() == static_cast<std::uint64_t>(taken));
}

}  // namespace
}  // namespace weir::opencl
