// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/present_watch.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

constexpr Duration kFrameWork = milliseconds(2);
constexpr Duration kBlankInterval = milliseconds(16);

/// Presents frames of 2 ms of work until the watch says that finishing first is worth it. Returns how many.
int FramesUntilItFinishes(PresentWatch& watch, Duration took, int most) {
  for (int i = 0; i < most; ++i) {
    if (watch.WorthFinishing()) return i;
    watch.Presented(kFrameWork, took);
  }
  return most;
}

TEST(PresentWatch, AProgramThatWaitsForABlankIsFinishedFirst) {
  PresentWatch watch;
  EXPECT_EQ(FramesUntilItFinishes(watch, kBlankInterval, 100), 30);
  for (int i = 0; i < 1000; ++i) watch.PresentedFinished(kBlankInterval - kFrameWork);
  EXPECT_TRUE(watch.WorthFinishing()) << "its presents still wait";
}

TEST(PresentWatch, AProgramThatWaitsForItsWorkOnlyIsNot) {
  PresentWatch watch;
  EXPECT_EQ(FramesUntilItFinishes(watch, kFrameWork + milliseconds(1) - nanoseconds(1), 1000), 1000);
}

TEST(PresentWatch, AMeterThatKnowsNothingOfTheFirstFramesIsNoReason) {
  PresentWatch watch;
  for (int i = 0; i < 1000; ++i) {
    watch.Presented(i < 5 ? Duration{0} : kFrameWork * (i == 5 ? 6 : 1), kFrameWork);
    ASSERT_FALSE(watch.WorthFinishing()) << i;
  }
}

TEST(PresentWatch, OneLongPresentIsNoReason) {
  PresentWatch watch;
  for (int i = 0; i < 1000; ++i) {
    watch.Presented(kFrameWork, i % 30 == 0 ? kFrameWork : kBlankInterval);
    ASSERT_FALSE(watch.WorthFinishing());
  }
}

TEST(PresentWatch, AFrameWhosePresentReturnsAtOnceTurnsItOff) {
  PresentWatch watch;
  FramesUntilItFinishes(watch, kBlankInterval, 100);
  for (int i = 0; i < 3; ++i) watch.PresentedFinished(microseconds(50));
  EXPECT_TRUE(watch.WorthFinishing());
  watch.PresentedFinished(microseconds(50));
  EXPECT_FALSE(watch.WorthFinishing());
}

TEST(PresentWatch, ThePauseUntilTheNextTryDoublesUpToABound) {
  PresentWatch watch;
  FramesUntilItFinishes(watch, kBlankInterval, 100);
  int pause = 64;
  for (int turn = 0; turn < 10; ++turn) {
    for (int i = 0; i < 4; ++i) watch.PresentedFinished(Duration{0});
    EXPECT_EQ(FramesUntilItFinishes(watch, kBlankInterval, 10'000), pause) << turn;
    pause = std::min(2 * pause, 4096);
  }
  for (int i = 0; i < 64; ++i) watch.PresentedFinished(kBlankInterval);  // it is right this time
  for (int i = 0; i < 16; ++i) watch.PresentedFinished(Duration{0});
  EXPECT_EQ(FramesUntilItFinishes(watch, kBlankInterval, 10'000), 30) << "without a pause";
  for (int i = 0; i < 4; ++i) watch.PresentedFinished(Duration{0});
  EXPECT_EQ(FramesUntilItFinishes(watch, kBlankInterval, 10'000), 64);
}

TEST(PresentWatch, AfterASecondOfBlankingAStallOfTheHostChangesNothing) {
  PresentWatch watch;
  FramesUntilItFinishes(watch, kBlankInterval, 100);
  for (int stall = 0; stall < 20; ++stall) {
    for (int i = 0; i < 64; ++i) watch.PresentedFinished(kBlankInterval);
    for (int i = 0; i < 15; ++i) watch.PresentedFinished(microseconds(50));
    ASSERT_TRUE(watch.WorthFinishing()) << stall;
  }
}

}  // namespace
}  // namespace weir::core
