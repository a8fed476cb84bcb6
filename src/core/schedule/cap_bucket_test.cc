// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/cap_bucket.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

constexpr Share kQuarter{250'000};

TEST(CapBucket, FillsAtItsCapUpToTheBurst) {
  CapBucket bucket;
  Instant now = InstantFromNs(1);
  EXPECT_EQ(bucket.Level(now, kQuarter, Duration{0}), milliseconds(25));
  EXPECT_EQ(bucket.Level(now += seconds(9), kQuarter, Duration{0}), milliseconds(25));
  EXPECT_EQ(bucket.Level(now, kQuarter, milliseconds(25)), Duration{0});
  EXPECT_EQ(bucket.Level(now += milliseconds(40), kQuarter, milliseconds(25)), milliseconds(10));
}

TEST(CapBucket, DebtIsCarriedHoweverLong) {
  CapBucket bucket;
  Instant now = InstantFromNs(1);
  bucket.Level(now, kQuarter, Duration{0});
  EXPECT_EQ(bucket.Level(now, kQuarter, milliseconds(525)), milliseconds(-500));
  EXPECT_EQ(bucket.Level(now += seconds(1), kQuarter, milliseconds(525)), milliseconds(-250));
  EXPECT_EQ(bucket.Level(now += seconds(1), kQuarter, milliseconds(525)), Duration{0});
}

}  // namespace
}  // namespace weir::core
