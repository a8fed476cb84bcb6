// SPDX-License-Identifier: Apache-2.0
#include "sim/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::sim {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// Ten seconds: "a" makes 10 frames/s, every fifth of them late, "b" 20; they use 0.3 and 0.1 of the device.
RunRecord Known(const std::string& label, double factor = 1) {
  RunRecord run{.label = label, .span_ns = 10'000 * kMs};
  run.tenants.resize(2);
  run.tenants[0].name = "a";
  run.tenants[1].name = "b";
  for (int i = 0; i < 100 * factor; ++i)
    run.tenants[0].frames.push_back({.end_ns = static_cast<std::int64_t>(i * 100 / factor) * kMs + 1,
                                     .latency_ns = (i % 5 == 0 ? 40 : 20) * kMs,
                                     .took_ns = 5 * kMs,
                                     .predicted_ns = (i % 10 == 0 ? 8 : 4) * kMs,
                                     .paced = i >= 50});
  for (int i = 0; i < 200; ++i) run.tenants[1].frames.push_back({.end_ns = i * 50 * kMs + 1, .latency_ns = 10 * kMs});
  run.tenants[0].gpu_ns_by_s.assign(10, 300 * kMs);
  run.tenants[1].gpu_ns_by_s.assign(10, 100 * kMs);
  run.tenants[1].gpu_ns_by_s[3] = 200 * kMs;
  return run;
}

double Get(const Expectation& e, const std::vector<RunRecord>& runs = {Known("r")}) {
  const auto value = Measure(runs, e);
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return value ? *value : std::nan("");
}

TEST(Metrics, SayWhatTheRecordHolds) {
  EXPECT_DOUBLE_EQ(Get({.metric = "fps", .run = "r", .tenant = "a"}), 10);
  EXPECT_DOUBLE_EQ(Get({.metric = "late", .run = "r", .tenant = "a", .parameter = 33}), 0.2);
  EXPECT_DOUBLE_EQ(Get({.metric = "late", .run = "r", .tenant = "a", .parameter = 50}), 0);
  EXPECT_DOUBLE_EQ(Get({.metric = "latency_ms", .run = "r", .tenant = "a"}), 24);
  EXPECT_DOUBLE_EQ(Get({.metric = "percentile_ms", .run = "r", .tenant = "a", .parameter = 0.8}), 20);
  EXPECT_DOUBLE_EQ(Get({.metric = "percentile_ms", .run = "r", .tenant = "a", .parameter = 0.81}), 40);
  EXPECT_DOUBLE_EQ(Get({.metric = "max_ms", .run = "r", .tenant = "a"}), 40);
  EXPECT_DOUBLE_EQ(Get({.metric = "mispredicted", .run = "r", .tenant = "a"}), 0.1);
  EXPECT_NEAR(Get({.metric = "gpu_use", .run = "r", .tenant = "a"}), 0.3, 1e-9);
  EXPECT_NEAR(Get({.metric = "gpu_share", .run = "r", .tenant = "a"}), 0.3 / 0.41, 1e-9);
  EXPECT_NEAR(Get({.metric = "device_use", .run = "r"}), 0.41, 1e-9);
  EXPECT_NEAR(Get({.metric = "use_range", .run = "r", .tenant = "b"}), 0.1 / 0.11, 1e-9);
  EXPECT_DOUBLE_EQ(Get({.metric = "switches", .run = "r", .tenant = "a"}), 1);
  EXPECT_NEAR(Get({.metric = "first_switch_s", .run = "r", .tenant = "a"}), 5, 1e-6);
}

TEST(Metrics, CountOnlyTheWindow) {
  EXPECT_DOUBLE_EQ(Get({.metric = "fps", .run = "r", .tenant = "a", .from_s = 2, .to_s = 4}), 10);
  EXPECT_NEAR(Get({.metric = "gpu_use", .run = "r", .tenant = "b", .from_s = 3, .to_s = 4}), 0.2, 1e-9);
  RunRecord run = Known("r");
  run.warm_up_ns = 5'000 * kMs;
  EXPECT_NEAR(Get({.metric = "gpu_use", .run = "r", .tenant = "b"}, {run}), 0.1, 1e-9) << "the warm-up is left out";
}

TEST(Metrics, AnEmptyWindowOrOneBeyondTheRunMeetsNoExpectation) {
  const std::vector runs{Known("r")};
  for (const auto& [from, to] : {std::pair{4.0, 4.0}, {4.0, 2.0}, {10.0, 0.0}, {20.0, 0.0}, {0.0, 100.0}}) {
    for (const char* metric : {"fps", "switches"}) {
      const auto verdict =
          Judge(runs, {.metric = metric, .run = "r", .tenant = "a", .from_s = from, .to_s = to, .max = 1e9});
      ASSERT_FALSE(verdict) << metric << " " << from << " to " << to;
      EXPECT_EQ(verdict.error().code, Errc::kInvalidArgument);
    }
  }
}

TEST(Metrics, NothingIsDividedByZero) {
  RunRecord idle = Known("idle");
  idle.tenants[0].frames.clear();
  EXPECT_FALSE(Judge(std::vector{Known("r"), idle},
                     {.metric = "fps", .run = "r", .tenant = "a", .per_run = "idle", .min = 1.5}));
}

TEST(Metrics, AreDividedByThoseOfAnotherRunOrTenant) {
  const std::vector<RunRecord> runs{Known("slow"), Known("fast", 2)};
  EXPECT_DOUBLE_EQ(Get({.metric = "fps", .run = "fast", .tenant = "a", .per_run = "slow"}, runs), 2);
  EXPECT_DOUBLE_EQ(Get({.metric = "fps", .run = "slow", .tenant = "b", .per_tenant = "a"}, runs), 2);
}

TEST(Metrics, AreSummedOverNamesAndAveragedOverParts) {
  const std::vector<RunRecord> runs{Known("slow"), Known("fast", 2)};
  const double a = Get({.metric = "fps", .run = "slow", .tenant = "a"}, runs);
  const double b = Get({.metric = "fps", .run = "slow", .tenant = "b"}, runs);
  EXPECT_DOUBLE_EQ(Get({.metric = "fps", .run = "slow", .tenant = "*"}, runs), a + b);
  EXPECT_DOUBLE_EQ(Get({.metric = "fps", .run = "slow", .tenant = "a*"}, runs), a);
  EXPECT_EQ(Measure(runs, {.metric = "fps", .run = "slow", .tenant = "z*"}).error().code, Errc::kNotFound);
  EXPECT_DOUBLE_EQ(Get({.metric = "fps", .run = "slow", .parts = {{.tenant = "a"}, {.tenant = "b"}}}, runs),
                   (a + b) / 2);
  const double ratio = Get({.metric = "fps", .run = "fast", .tenant = "b", .per_run = "slow"}, runs);
  EXPECT_DOUBLE_EQ(
      Get({.metric = "fps", .run = "fast", .parts = {{.tenant = "a"}, {.tenant = "b"}}, .per_run = "slow"}, runs),
      (2 + ratio) / 2)
      << "of each one's ratio";
}

TEST(Metrics, AreTakenOverRunsAndOverTheirCounterparts) {
  const std::vector<RunRecord> runs{Known("s-1"), Known("s-2", 3), Known("t-1", 2), Known("t-2", 2)};
  const double one = Get({.metric = "fps", .run = "s-1", .tenant = "a"}, runs);
  EXPECT_DOUBLE_EQ(Get({.metric = "mean:fps", .run = "s-", .tenant = "a"}, runs), 2 * one);
  EXPECT_DOUBLE_EQ(Get({.metric = "most:fps", .run = "s-", .tenant = "a"}, runs), 3 * one);
  EXPECT_DOUBLE_EQ(Get({.metric = "least:fps", .run = "s-", .tenant = "a"}, runs), one);
  EXPECT_DOUBLE_EQ(Get({.metric = "mean:fps", .run = "s-", .tenant = "a", .per_run = "t-"}, runs), 1);
  EXPECT_EQ(Measure(runs, {.metric = "mean:fps", .run = "x-", .tenant = "a"}).error().code, Errc::kNotFound);
  EXPECT_EQ(Measure(runs, {.metric = "mean:fps", .run = "s-", .tenant = "a", .per_run = "u-"}).error().code,
            Errc::kNotFound);
}

TEST(Metrics, FitCurvesOverRuns) {
  std::vector<RunRecord> runs;
  for (const double factor : {1.0, 2.0, 4.0, 8.0}) {
    runs.push_back(Known("s-" + std::to_string(factor), factor));
    for (FrameRecord& frame : runs.back().tenants[0].frames)
      frame.pace_ns = static_cast<std::int64_t>(100.0 / factor) * kMs;
  }
  EXPECT_NEAR(Get({.metric = "fit:exponent:pace_ms:fps", .run = "s-", .tenant = "a"}, runs), -1, 0.02);
  EXPECT_NEAR(Get({.metric = "fit:r2:pace_ms:fps", .run = "s-", .tenant = "a"}, runs), 1, 0.01);
  EXPECT_NEAR(Get({.metric = "fit:slope:fps:fps", .run = "s-", .tenant = "a"}, runs), 1, 1e-9);
  EXPECT_NEAR(Get({.metric = "fit:intercept:fps:fps", .run = "s-", .tenant = "a"}, runs), 0, 1e-9);
  EXPECT_NEAR(Get({.metric = "fit:slope:fps:fps", .run = "s-", .tenant = "a", .per_tenant = "b"}, runs), 0, 1e-9);
  EXPECT_NEAR(Get({.metric = "fit:intercept:fps:fps", .run = "s-", .tenant = "a", .per_tenant = "b"}, runs), 20, 1e-9);
}

TEST(Metrics, SayWhatIsMissing) {
  const std::vector<RunRecord> runs{Known("r")};
  EXPECT_EQ(Measure(runs, {.metric = "speed", .run = "r"}).error().code, Errc::kNotFound);
  EXPECT_EQ(Measure(runs, {.metric = "fit:curve:fps:fps", .run = "r", .tenant = "a"}).error().code, Errc::kNotFound);
  EXPECT_EQ(Measure(runs, {.metric = "fps", .run = "q", .tenant = "a"}).error().message, "no run 'q'");
  EXPECT_EQ(Measure(runs, {.metric = "fps", .run = "r", .tenant = "z"}).error().message, "run 'r' has no tenant 'z'");
  EXPECT_EQ(Measure(runs, {.metric = "latency_ms", .run = "r", .tenant = "a", .from_s = 20, .to_s = 30}).error().code,
            Errc::kInvalidArgument);
}

TEST(Metrics, AnExpectationIsMetWithinItsRange) {
  const std::vector<RunRecord> runs{Known("r")};
  Expectation e{.metric = "fps", .run = "r", .tenant = "a", .min = 10};
  EXPECT_TRUE(Judge(runs, e)->met);
  e.min = 10.1;
  EXPECT_FALSE(Judge(runs, e)->met);
  e = {.metric = "fps", .run = "r", .tenant = "a", .max = 9.9};
  EXPECT_FALSE(Judge(runs, e)->met);
}

TEST(Metrics, EveryOneIsNamedOnceAndExplained) {
  for (const Metric& metric : MetricTable()) {
    EXPECT_FALSE(metric.summary.empty()) << metric.name;
    for (const Metric& other : MetricTable()) EXPECT_TRUE(&metric == &other || metric.name != other.name);
  }
}

}  // namespace
}  // namespace weir::sim
