// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/reserve.h"

#include <gtest/gtest.h>

#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

struct ReserveBench {
  std::unique_ptr<Policy> policy = *MakePolicy("reserve", {});
  std::vector<VgpuView> views{{.id = VgpuId{1}, .slot = 0, .weight = 25, .in_flight = 1, .attached = true},
                              {.id = VgpuId{2}, .slot = 1, .weight = 75, .attached = true}};
  std::vector<Verdict> verdicts{2};
  Instant now = InstantFromNs(1'000'000'000);
  Duration Allowance(Duration after, Duration used = {}) {
    now += after;
    views[0].used += used;
    views[0].last_active = now;
    policy->Decide({now, views}, verdicts);
    return verdicts[0].allowance;
  }
};

// e = min(t·s, e + t·s) with t = 1 ms, s = 0.25 (VGRIS, eq. 1)
TEST(Reserve, ReplenishesByEquationOneEveryMillisecond) {
  ReserveBench b;
  EXPECT_EQ(b.Allowance(Duration{0}), microseconds(250));
  EXPECT_EQ(b.Allowance(milliseconds(1)), microseconds(250));                      // nothing accumulates
  EXPECT_EQ(b.Allowance(milliseconds(1), microseconds(900)), microseconds(-400));  // 250 - 900 + 250
  EXPECT_EQ(b.Allowance(milliseconds(1)), microseconds(-150));
  EXPECT_EQ(b.Allowance(milliseconds(1)), microseconds(100));
  EXPECT_EQ(b.Allowance(milliseconds(1)), microseconds(250));
}

TEST(Reserve, NothingIsReplenishedWithinAPeriod) {
  ReserveBench b;
  b.Allowance(Duration{0});
  EXPECT_EQ(b.Allowance(microseconds(400), microseconds(100)), microseconds(150));
}

TEST(Reserve, MissedPeriodsAreCaughtUpInClosedForm) {
  ReserveBench b;
  b.Allowance(Duration{0});
  b.Allowance(milliseconds(1), milliseconds(10));  // 0.25 - 10 + 0.25
  EXPECT_EQ(b.Allowance(milliseconds(4)), microseconds(-8500));
}

TEST(Reserve, UseAfterAnIdleStretchIsCharged) {
  ReserveBench b;
  b.Allowance(Duration{0});
  EXPECT_EQ(b.Allowance(seconds(10), milliseconds(5)), microseconds(-4500));  // 0.25 (full) - 5 + 0.25
}

}  // namespace
}  // namespace weir::core
