// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/policy_table.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

TEST(PolicyTable, EveryPolicyIsMadeFromItsPresets) {
  for (const PolicyEntry& entry : PolicyTable()) {
    const auto policy = MakePolicy(entry.name, {});
    ASSERT_TRUE(policy.has_value()) << entry.name;
    for (const PolicyParam& param : entry.params) {
      EXPECT_LE(param.min, param.preset) << entry.name << "." << param.name;
      EXPECT_GE(param.max, param.preset) << entry.name << "." << param.name;
      EXPECT_FALSE(param.unit.empty()) << entry.name << "." << param.name;
    }
  }
}

TEST(PolicyTable, TheDefaultIsInTheTable) { EXPECT_TRUE(FindPolicy(kDefaultPolicy).has_value()); }

TEST(PolicyTable, EveryPolicyAnswersForNoVgpuAtAll) {
  for (const PolicyEntry& entry : PolicyTable()) {
    auto policy = MakePolicy(entry.name, {});
    EXPECT_EQ((*policy)->Decide({InstantFromNs(5), {}}, {}), kNever) << entry.name;
  }
}

}  // namespace
}  // namespace weir::core
