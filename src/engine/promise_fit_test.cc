// SPDX-License-Identifier: Apache-2.0
// What the engine says of promised rates: whether the policy keeps them.
#include <gtest/gtest.h>

#include "tests/harness/model_node.h"

namespace weir::engine {
namespace {

using testing::ModelNode;

VgpuSettings Promised(double fps) {
  VgpuSettings settings;
  settings.fps = fps;
  return settings;
}

TEST(PromisedRates, AreIgnoredByTheDefaultPolicyWithAWarning) {
  ModelNode node;
  const VgpuId game = node.AddVgpu("game", Promised(60)), job = node.AddVgpu("job", {});
  const PromiseStatus promise = node.engine().Promise(game);
  EXPECT_TRUE(promise.given);
  EXPECT_FALSE(promise.kept_by_policy);
  ASSERT_EQ(promise.warnings.size(), 1U);
  EXPECT_EQ(promise.warnings[0],
            "the policy of embedded, proportional-share, ignores promised rates and latencies; 'weir policy sla-aware "
            "--device embedded' keeps them (as do: hybrid, cap)");
  EXPECT_FALSE(node.engine().Promise(job).given);
  EXPECT_TRUE(node.engine().Promise(job).warnings.empty()) << "nothing is promised";
  EXPECT_FALSE(node.engine().Promise(VgpuId{99}).given);
}

TEST(PromisedRates, OfALatencyOrOfTasksAreRatesToo) {
  ModelNode node;
  VgpuSettings latency, tasks;
  latency.latency = milliseconds(20);
  tasks.tasks_per_s = 5;
  EXPECT_EQ(node.engine().Promise(node.AddVgpu("a", latency)).warnings.size(), 1U);
  EXPECT_EQ(node.engine().Promise(node.AddVgpu("b", tasks)).warnings.size(), 1U);
}

// The policy decides by its entry in the table, and `cap` by a parameter.
TEST(PromisedRates, AreKeptByThePoliciesThatSaySo) {
  ModelNode node;
  const VgpuId game = node.AddVgpu("game", Promised(60));
  for (const core::PolicyEntry& entry : core::PolicyTable()) {
    node.SetPolicy(std::string(entry.name));
    EXPECT_EQ(node.engine().Promise(game).warnings.empty(), entry.rates.keeps) << entry.name;
    EXPECT_EQ(node.engine().Devices(node.now()).front().warnings.empty(), entry.rates.keeps) << entry.name;
  }
  node.SetPolicy("cap", {{"ahead_ms", 0}});
  EXPECT_FALSE(node.engine().Promise(game).kept_by_policy);
}

TEST(PromisedRates, ADeviceNamesThoseThatItsPolicyIgnores) {
  ModelNode node;
  EXPECT_TRUE(node.engine().Devices(node.now()).front().warnings.empty());
  for (const char* name : {"g", "f", "e", "d", "c", "b", "a"}) node.AddVgpu(name, Promised(30));
  const auto warnings = node.engine().Devices(node.now()).front().warnings;
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].ends_with("promised to: a, b, c, d, e and 2 more")) << warnings[0];
}

}  // namespace
}  // namespace weir::engine
