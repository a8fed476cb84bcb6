// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/hybrid.h"

#include <gtest/gtest.h>

#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

/// Two vGPUs with a decision every 100 ms; the test sets their `rate` and GPU use.
struct HybridBench {
  explicit HybridBench(const PolicyParams& params = {})
      : policy(*MakePolicy("hybrid", *CheckParams(**FindPolicy("hybrid"), params))) {}

  void RunFor(Duration span) {
    for (const Instant end = now + span; now < end;) {
      now += milliseconds(100);
      for (std::size_t i = 0; i < views.size(); ++i) {
        views[i].used += Duration{static_cast<std::int64_t>(use[i] * 1e8)};
        views[i].rate = rate[i];
        views[i].last_active = now;
      }
      policy->Decide({now, views}, verdicts);
      const bool was = sla;
      sla = verdicts[0].frame_interval > Duration{0};
      if (sla != was) switches.push_back(now);
    }
  }

  std::unique_ptr<Policy> policy;
  std::vector<VgpuView> views{{.id = VgpuId{1}, .slot = 0, .in_flight = 1, .attached = true},
                              {.id = VgpuId{2}, .slot = 1, .in_flight = 1, .attached = true}};
  std::vector<Verdict> verdicts{2};
  double rate[2] = {60, 60};
  double use[2] = {0.4, 0.4};
  Instant now = InstantFromNs(1'000'000'000);
  bool sla = false;
  std::vector<Instant> switches;
};

TEST(Hybrid, StartsInFairProportionalShare) {
  HybridBench b;
  b.views[0].weight = 900;  // the configured weight is ignored here
  b.RunFor(milliseconds(100));
  for (const Verdict& verdict : b.verdicts) {
    EXPECT_EQ(verdict.admission, Admission::kGated);
    EXPECT_EQ(verdict.frame_interval, Duration{0});
  }
  EXPECT_EQ(b.verdicts[0].allowance, b.verdicts[1].allowance);
}

TEST(Hybrid, AComputingVgpuIsNeverTooSlow) {
  HybridBench b;
  b.rate[1] = 1;  // a kernel per second
  b.views[1].draws = false;
  b.RunFor(seconds(20));
  EXPECT_FALSE(b.sla);
  b.views[1].promised = milliseconds(33);
  b.RunFor(seconds(7));
  EXPECT_TRUE(b.sla) << "but for what it was promised";
}

TEST(Hybrid, GoesSlaAwareWhenAProgramIsTooSlowForFiveSeconds) {
  HybridBench b;
  b.RunFor(seconds(3));
  b.rate[1] = 20;
  b.RunFor(milliseconds(3'900));
  EXPECT_FALSE(b.sla);
  b.RunFor(milliseconds(1'200));
  EXPECT_TRUE(b.sla);
  for (const Verdict& verdict : b.verdicts) EXPECT_EQ(verdict.admission, Admission::kOpen);
}

TEST(Hybrid, FiveSecondsMustBeInSuccessionAndOfOneProgram) {
  HybridBench b;
  for (int i = 0; i < 5; ++i) {  // each is slow for four seconds, in turns
    b.rate[0] = i % 2 == 0 ? 10 : 60;
    b.rate[1] = i % 2 == 0 ? 60 : 10;
    b.RunFor(seconds(4));
  }
  EXPECT_FALSE(b.sla);
}

TEST(Hybrid, ThePromiseOfAVgpuIsItsThreshold) {
  HybridBench b;
  b.views[0].promised = FromSeconds(1.0 / 60);
  b.rate[0] = 58;  // within the slack of 5 %
  b.RunFor(seconds(20));
  EXPECT_FALSE(b.sla);
  b.rate[0] = 50;  // well above the 30 of a vGPU without a promise
  b.RunFor(seconds(7));
  EXPECT_TRUE(b.sla);
}

TEST(Hybrid, AProgramWithoutPresentsDoesNotCountAsStarved) {
  HybridBench b;
  b.rate[1] = 0;
  b.views[1].in_flight = 0;
  for (int i = 0; i < 20; ++i) {
    b.RunFor(seconds(1));
    b.views[1].last_active = Instant{};
  }
  b.views[1].attached = false;
  b.RunFor(seconds(10));
  EXPECT_FALSE(b.sla);
}

TEST(Hybrid, GoesBackWhenTheDeviceIsUsedLittleForFiveSeconds) {
  HybridBench b;
  b.rate[1] = 20;
  b.RunFor(seconds(7));
  ASSERT_TRUE(b.sla);
  b.use[0] = b.use[1] = 0.45;
  b.RunFor(seconds(20));
  EXPECT_TRUE(b.sla) << "90 % is not little";
  b.use[0] = 0.3, b.use[1] = 0.2;
  b.RunFor(milliseconds(4'500));
  EXPECT_TRUE(b.sla);
  b.RunFor(seconds(2));
  EXPECT_FALSE(b.sla);
}

// s_i = u_i + (1 - Σu)/n: 0.3 + 0.25 and 0.2 + 0.25   (VGRIS, eq. 2)
TEST(Hybrid, ComputesSharesByEquationTwoOnlyOnTheWayBack) {
  HybridBench b({{"shares", 1.0}});  // reserve: the allowance after a period is the period's share
  b.rate[1] = 20;
  b.RunFor(seconds(7));
  ASSERT_TRUE(b.sla);
  b.use[0] = 0.3, b.use[1] = 0.2;
  b.rate[0] = b.rate[1] = 30;
  b.RunFor(seconds(8));
  ASSERT_FALSE(b.sla);
  b.use[0] = b.use[1] = 0;
  b.RunFor(milliseconds(100));
  EXPECT_NEAR(static_cast<double>(b.verdicts[0].allowance.count()), 550'000, 20'000);
  EXPECT_NEAR(static_cast<double>(b.verdicts[1].allowance.count()), 450'000, 20'000);
  b.use[0] = 0.1, b.use[1] = 0.8;  // no longer considered
  b.RunFor(seconds(2));
  b.use[0] = b.use[1] = 0;
  b.RunFor(seconds(1));
  EXPECT_NEAR(static_cast<double>(b.verdicts[0].allowance.count()), 550'000, 20'000);
}

TEST(Hybrid, NoSwitchComesSoonerThanItsWaitTime) {
  HybridBench b({{"wait_s", 3.0}});
  b.rate[0] = 10;             // always starved
  b.use[0] = b.use[1] = 0.1;  // always idle
  b.RunFor(seconds(60));
  ASSERT_GE(b.switches.size(), 10u);
  for (std::size_t i = 1; i < b.switches.size(); ++i) EXPECT_GE(b.switches[i] - b.switches[i - 1], seconds(3));
}

}  // namespace
}  // namespace weir::core
