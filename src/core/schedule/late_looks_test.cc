// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/late_looks.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

constexpr Instant At(Duration since_start) { return InstantFromNs(1'000'000'000) + since_start; }

TEST(LateLooks, ADecisionInTimeIsNotLate) {
  LateLooks looks;
  looks.Decided(At(milliseconds(0)));
  looks.Asked(At(milliseconds(1)));
  looks.Decided(At(milliseconds(1)));
  EXPECT_EQ(looks.late(), Duration{0});
  looks.Asked(At(milliseconds(5)));
  looks.Decided(At(milliseconds(2)));  // a doorbell rang
  EXPECT_EQ(looks.late(), Duration{0});
}

TEST(LateLooks, TheLongestRecentDelayCounts) {
  LateLooks looks;
  looks.Asked(At(milliseconds(1)));
  looks.Decided(At(milliseconds(9)));
  EXPECT_EQ(looks.late(), milliseconds(8));
  looks.Asked(At(milliseconds(10)));
  looks.Decided(At(milliseconds(12)));
  EXPECT_NEAR(MillisecondsOf(looks.late()), 8, 0.1);
  looks.Asked(At(milliseconds(1012)));
  looks.Decided(At(milliseconds(1012)));
  EXPECT_NEAR(MillisecondsOf(looks.late()), 4, 0.1) << "half as much a second later";
}

TEST(LateLooks, AfterAWaitWithoutAnEndNothingIsLate) {
  LateLooks looks;
  looks.Decided(At(milliseconds(0)));
  looks.Asked(kNever);
  looks.Decided(At(seconds(10)));
  EXPECT_EQ(looks.late(), Duration{0});
}

TEST(LateLooks, AStoppedDaemonCountsForTheMost) {
  LateLooks looks;
  looks.Asked(At(milliseconds(1)));
  looks.Decided(At(seconds(3)));
  EXPECT_EQ(looks.late(), LateLooks::kMost);
}

}  // namespace
}  // namespace weir::core
