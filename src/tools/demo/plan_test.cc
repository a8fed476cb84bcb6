// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weir::cli {
namespace {

TEST(Percentile, IsTheNearestRank) {
  std::vector<double> hundred(100);
  std::iota(hundred.rbegin(), hundred.rend(), 1.0);  // 100 … 1
  EXPECT_EQ(Percentile(hundred, 0.99), 99);
  EXPECT_EQ(Percentile(hundred, 0.5), 50);
  EXPECT_EQ(Percentile(hundred, 1), 100);
  EXPECT_EQ(Percentile(hundred, 0.001), 1);
  EXPECT_EQ(Percentile({15, 20, 35, 40, 50}, 0.3), 20) << "the textbook's example";
  EXPECT_EQ(Percentile({7}, 0.99), 7);
  EXPECT_EQ(Percentile({}, 0.99), 0);
}

DemoResult TwoPrograms() {
  DemoResult result;
  result.workloads = {{"a", 75, 0, {"a"}, ""}, {"b", 25, 60, {"b"}, ""}};
  Phase phase{"none", 0, 2'000'000'000, {}};
  phase.programs.push_back(
      {{{-1, 90'000'000, 0}, {1, 10'000'000, 0}, {2, 30'000'000, 0}, {2'000'000'000, 80'000'000, 0}},
       {200, 0, 900, 500'000'000},
       0});
  phase.programs.push_back({{}, {120, 3, 100, 0}, 0});
  result.phases.push_back(phase);
  return result;
}

TEST(Judge, ComparesPromisesWithResults) {
  const Outcome a = Judge(TwoPrograms(), 0, 0);
  EXPECT_DOUBLE_EQ(a.promise, 0.75);
  EXPECT_DOUBLE_EQ(a.got, 0.9);
  EXPECT_DOUBLE_EQ(a.use, 900.0 / 2e9);
  EXPECT_DOUBLE_EQ(a.fps, 100);
  EXPECT_DOUBLE_EQ(a.mean_ms, 20);
  EXPECT_DOUBLE_EQ(a.p99_ms, 30);
  EXPECT_DOUBLE_EQ(a.max_ms, 30) << "frames that ended outside of the phase don't count";
  EXPECT_DOUBLE_EQ(a.wait, 0.25);
  const Outcome b = Judge(TwoPrograms(), 0, 1);
  EXPECT_DOUBLE_EQ(b.promise, 0.25);
  EXPECT_DOUBLE_EQ(b.fps, 60);
  EXPECT_EQ(b.late_frames, 3);
  EXPECT_EQ(b.max_ms, 0) << "no frame was seen";
}

TEST(Judge, DividesNothingByZero) {
  DemoResult result = TwoPrograms();
  result.phases[0].end_ns = 0;
  for (ProgramPhase& program : result.phases[0].programs) program = {};
  result.workloads[0].weight = result.workloads[1].weight = 0;
  const Outcome a = Judge(result, 0, 0);
  EXPECT_EQ(a.promise, 0);
  EXPECT_EQ(a.got, 0);
  EXPECT_EQ(a.fps, 0);
}

TEST(DefaultWorkloads, PromiseHalfAThirdAndAFifth) {
  const auto workloads = DefaultWorkloads();
  ASSERT_EQ(workloads.size(), 3U);
  EXPECT_EQ(workloads[0].weight + workloads[1].weight + workloads[2].weight, 100);
  for (const Workload& workload : workloads) EXPECT_FALSE(workload.package.empty());
}

}  // namespace
}  // namespace weir::cli
