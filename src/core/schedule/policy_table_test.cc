// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/policy_table.h"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(PolicyTable, EveryPolicyHandlesZeroVgpus) {
  for (const PolicyEntry& entry : PolicyTable()) {
    auto policy = MakePolicy(entry.name, {});
    EXPECT_EQ((*policy)->Decide({InstantFromNs(5), {}}, {}), kNever) << entry.name;
  }
}

TEST(PolicyTable, AChoiceIsSetByNameOrNumberOnly) {
  const PolicyEntry& entry = **FindPolicy("sla-aware");
  EXPECT_EQ(ValueOfChoice(entry, "sync", "fence").value(), 3.0);
  EXPECT_EQ(NameOfChoice("sla-aware", "sync", 3.0), "fence");
  EXPECT_EQ(NameOfChoice("sla-aware", "fps", 3.0), "");
  EXPECT_EQ(ValueOfChoice(entry, "sync", "often").error().message,
            "policy sla-aware: sync = 'often' is not one of: auto, none, flush, fence, finish");
  EXPECT_EQ(ValueOfChoice(entry, "fps", "fast").error().message, "policy sla-aware: fps = 'fast' is not a number");
  EXPECT_EQ(ValueOfChoice(entry, "speed", "fast").error().message, "policy sla-aware has no parameter 'speed'");
  EXPECT_EQ(CheckParams(entry, {{"sync", 1.5}}).error().message,
            "policy sla-aware: sync = 1.5 is not one of: auto, none, flush, fence, finish");
  EXPECT_FALSE(CheckParams(entry, {{"sync", 5.0}}));
}

TEST(PolicyTable, NamesOfChoicesCoverTheirRange) {
  for (const PolicyEntry& entry : PolicyTable())
    for (const PolicyParam& param : entry.params)
      if (!param.choices.empty()) {
        EXPECT_EQ(param.min, 0) << entry.name << "." << param.name;
        EXPECT_EQ(param.max, static_cast<double>(param.choices.size() - 1)) << entry.name << "." << param.name;
      }
}

TEST(PolicyTable, SaysWhichPoliciesKeepRates) {
  EXPECT_EQ(PoliciesThatKeepRates(), (std::vector<std::string_view>{"sla-aware", "hybrid", "cap"}));
  for (const PolicyEntry& entry : PolicyTable()) {
    const std::string_view zero = entry.rates.off_at_zero;
    EXPECT_TRUE(zero.empty() ||
                std::ranges::any_of(entry.params, [&](const auto& param) { return param.name == zero; }))
        << entry.name << " has no parameter " << zero;
  }
}

TEST(PolicyTable, CapKeepsRatesUnlessCapsAloneDecide) {
  const PolicyEntry& cap = **FindPolicy("cap");
  EXPECT_TRUE(KeepsRates(cap, {}));
  EXPECT_TRUE(KeepsRates(cap, {{"ahead_ms", 1}}));
  EXPECT_FALSE(KeepsRates(cap, {{"ahead_ms", 0}}));
  EXPECT_FALSE(KeepsRates(**FindPolicy("none"), {}));
}

}  // namespace
}  // namespace weir::core
