// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/time_slices.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

constexpr SliceClock kTenths{.stage = milliseconds(100), .stages = 10};

/// Time left in the first stage of the second period, if nothing was spent in the first period.
Duration LeftAfterAPeriod(const SliceClock& clock, Share cap, Duration kept) {
  TimeSlice slice;
  for (std::int64_t stage = 10; stage < 20; ++stage) slice.Left(clock, clock.BeginOf(stage), cap, {}, kept);
  return slice.Left(clock, clock.BeginOf(20), cap, {}, kept);
}

TEST(TimeSlice, UnusedTimeIsLostExceptTheKeptPart) {
  const Share cap = Share::FromFraction(0.6);
  EXPECT_EQ(LeftAfterAPeriod(kTenths, cap, Duration{0}), milliseconds(60));
  EXPECT_EQ(LeftAfterAPeriod(kTenths, cap, milliseconds(500)), milliseconds(560))
      << "a kernel that had to let one pass";
}

TEST(TimeSlice, KeepsAtMostOnePeriodsTime) {
  EXPECT_EQ(LeftAfterAPeriod(kTenths, Share::FromFraction(0.2), seconds(5)), milliseconds(220));
}

TEST(TimeSlice, ThePapersVariantForgetsUnusedTimeAndDebt) {
  const SliceClock forgiving{.stage = milliseconds(100), .stages = 10, .forgives = true};
  const Share cap = Share::FromFraction(0.6);
  EXPECT_EQ(LeftAfterAPeriod(forgiving, cap, milliseconds(500)), milliseconds(60));
  TimeSlice slice;
  slice.Left(forgiving, forgiving.BeginOf(10), cap, {}, {});
  EXPECT_EQ(slice.Left(forgiving, forgiving.BeginOf(20), cap, seconds(3), {}), milliseconds(60));
}

}  // namespace
}  // namespace weir::core
