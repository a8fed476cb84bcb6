// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/time_slices.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

constexpr SliceClock kTenths{.stage = milliseconds(100), .stages = 10};

/// Time left in the first stage of the second period, if nothing was spent in the first period.
Duration LeftAfterAPeriod(const SliceClock& clock, Share cap, Duration kept) {
  TimeSlice slice;
  for (std::int64_t stage = 10; stage < 20; ++stage) slice.Left(clock, clock.BeginOf(stage), cap, {}, {.kernel = kept});
  return slice.Left(clock, clock.BeginOf(20), cap, {}, {.kernel = kept});
}

TEST(TimeSlice, UnusedTimeIsLostExceptTheKeptPart) {
  const Share cap = Share::FromFraction(0.6);
  EXPECT_EQ(LeftAfterAPeriod(kTenths, cap, Duration{0}), milliseconds(60));
  EXPECT_EQ(LeftAfterAPeriod(kTenths, cap, milliseconds(500)), milliseconds(560))
      << "a kernel that had to let one pass";
}

TEST(TimeSlice, KeepsAtMostWhatFillsDuringAPeriodOrAKernel) {
  EXPECT_EQ(LeftAfterAPeriod(kTenths, Share::FromFraction(0.2), seconds(1)), milliseconds(220));
  TimeSlice slice;
  const Share cap = Share::FromFraction(0.2);
  Instant now;
  for (std::int64_t stage = 10; stage < 40; ++stage)
    slice.Left(kTenths, now = kTenths.BeginOf(stage), cap, {}, {.kernel = seconds(3)});
  EXPECT_EQ(slice.Left(kTenths, now, cap, seconds(3), {.kernel = seconds(3)}), milliseconds(-2'400))
      << "a kernel of three seconds ends, in which the slice got 0.6 s";
}

constexpr Kept kAtWork{.longest_of_others = seconds(60), .competes = true};

/// Waits behind another's kernel for `behind` from the middle of a period, and wants the device throughout.
TimeSlice Behind(Share cap, Duration behind, Instant& now) {
  TimeSlice slice;
  now = kTenths.BeginOf(15);
  slice.Left(kTenths, now, cap, {}, kAtWork);
  for (Duration waited{}; waited < behind; waited += milliseconds(100))
    slice.Left(kTenths, now += milliseconds(100), cap, {},
               {.waited_behind = milliseconds(100), .longest_of_others = behind, .competes = true});
  return slice;
}

TEST(TimeSlice, WhatAVgpuMissedBehindALongKernelIsKeptUntilItIsUsed) {
  const Share half = Share::FromFraction(0.5);
  Instant now;
  TimeSlice slice = Behind(half, seconds(3), now);
  EXPECT_EQ(slice.Left(kTenths, now, half, {}, kAtWork), milliseconds(1'550)) << "three periods have ended";
  Duration used{};
  for (; used < seconds(3); used += milliseconds(100))
    EXPECT_GT(slice.Left(kTenths, now += milliseconds(100), half, used, kAtWork), Duration{0})
        << "it has the device for as long as it has waited";
  used += slice.Left(kTenths, now, half, used, kAtWork);
  for (int stage = 0; stage < 40; ++stage)
    EXPECT_LE(slice.Left(kTenths, now += milliseconds(100), half, used, kAtWork), milliseconds(550)) << "used up";
}

/// The daemon may be late, or nothing may have happened for a while.
TEST(TimeSlice, OneCallAfterALongTimeGivesWhatACallInEachStageGives) {
  const Share half = Share::FromFraction(0.5);
  const Kept kernel{.kernel = seconds(3), .competes = true};
  Instant now;
  for (const Kept& kept : {kAtWork, kernel})
    for (const Duration used : {milliseconds(0), milliseconds(500), milliseconds(4'000), milliseconds(40'000)}) {
      TimeSlice start = Behind(half, seconds(3), now);
      start.Left(kTenths, now, half, used, kept);
      TimeSlice step_by_step = start;
      for (int stage = 1; stage < 100; ++stage) {
        const Instant then = now + stage * milliseconds(100);
        TimeSlice at_once = start;
        ASSERT_EQ(at_once.Left(kTenths, then, half, used, kept), step_by_step.Left(kTenths, then, half, used, kept))
            << "after " << stage << " stages, with " << used.count() / 1'000'000 << " ms used";
      }
    }
}

TEST(TimeSlice, WhatAVgpuMissedIsLostWhenItStops) {
  const Share half = Share::FromFraction(0.5);
  Instant now;
  TimeSlice slice = Behind(half, seconds(3), now);
  slice.Left(kTenths, now, half, {}, {.longest_of_others = seconds(3)});
  EXPECT_LE(slice.Left(kTenths, now += seconds(1), half, {}, kAtWork), milliseconds(550));
}

TEST(TimeSlice, AHungKernelOfAnotherIsMadeUpForOnlyInPart) {
  const Share half = Share::FromFraction(0.5);
  Instant now;
  TimeSlice slice = Behind(half, seconds(60), now);
  EXPECT_LE(slice.Left(kTenths, now, half, {}, kAtWork), half.Of(kKernelMost) + milliseconds(550));
}

TEST(TimeSlice, WithoutTimeLeftNothingIsMissed) {
  const Share half = Share::FromFraction(0.5);
  constexpr Kept kBehind{.waited_behind = milliseconds(100), .longest_of_others = seconds(3), .competes = true};
  TimeSlice slice;
  Instant now = kTenths.BeginOf(15);
  slice.Left(kTenths, now, half, {}, kAtWork);
  slice.Left(kTenths, now, half, seconds(1), kBehind);
  while (slice.Left(kTenths, now, half, seconds(1), kBehind) <= Duration{0}) now += milliseconds(100);
  for (int stage = 0; stage < 40; ++stage)
    EXPECT_LE(slice.Left(kTenths, now += milliseconds(100), half, seconds(1), kAtWork), milliseconds(550));
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
