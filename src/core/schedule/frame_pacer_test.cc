// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/frame_pacer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

namespace weir::core {
namespace {

constexpr Duration kFrameInterval = microseconds(16'667);

/// A program whose frames take `work`, whose presents take `present`, and whose sleeps end late by `late`.
struct Loop {
  FramePacer pacer;
  Instant now = InstantFromNs(1'000'000'000);
  std::vector<Instant> ends;

  void Frame(Duration work, Duration present, Duration late = {}, Duration interval = kFrameInterval) {
    now += work;
    const Instant submit = pacer.SubmitAt(interval);
    if (submit > now) {
      now = submit + late;
      pacer.Slept(submit, now);
    }
    const Instant called = now;
    now += present;
    pacer.Presented(interval, called, now);
    ends.push_back(now);
  }
  /// A frame with a late frame start. Records its time from the start to the end.
  void LateFrame(Duration work, Duration present, Duration late = {}, Duration interval = kFrameInterval) {
    const Instant start = pacer.StartAt(interval);
    if (start > now) {
      now = start + late;
      pacer.StartDelayed(start, now);
    }
    const Instant started = now;
    const Instant ready = now + work;
    Frame(work, present, late, interval);
    const Duration paced = std::max(now - present - ready, Duration{0});
    pacer.Took(now - started - paced);
    inputs.push_back(now - started);
  }
  std::vector<Duration> inputs;  // time of each LateFrame from its start to its end
  [[nodiscard]] Duration Latency(std::size_t frame) const { return ends[frame] - ends[frame - 1]; }
  [[nodiscard]] Duration Span() const { return ends.back() - ends.front(); }
};

TEST(FramePacer, TheFirstFrameIsNotDelayed) {
  Loop loop;
  loop.Frame(milliseconds(1), milliseconds(1));
  EXPECT_EQ(loop.ends[0], InstantFromNs(1'002'000'000));
}

TEST(FramePacer, FramesEndOneIntervalApart) {
  Loop loop;
  for (int i = 0; i < 100; ++i) loop.Frame(milliseconds(5), milliseconds(2));
  for (std::size_t i = 30; i < 100; ++i) EXPECT_EQ(loop.Latency(i), kFrameInterval) << i;
}

TEST(FramePacer, PredictsThePresentByTheMeanOfTheLastTwenty) {
  Loop loop;
  EXPECT_EQ(loop.pacer.PredictedPresent(), Duration{0});
  for (int i = 0; i < 50; ++i) loop.Frame(milliseconds(1), milliseconds(100));
  for (int i = 1; i <= 20; ++i) loop.Frame(milliseconds(1), milliseconds(i));
  EXPECT_EQ(loop.pacer.PredictedPresent(), microseconds(10'500));
}

TEST(FramePacer, CompensatesForLateWakeUps) {
  Loop loop;
  for (int i = 0; i < 100; ++i) loop.Frame(milliseconds(5), milliseconds(2), microseconds(400));
  EXPECT_EQ(loop.Span() / 99, kFrameInterval);
  EXPECT_LE(loop.Latency(99), kFrameInterval + microseconds(1));
}

TEST(FramePacer, ALateFrameIsMadeGoodByAQuarterOfAnIntervalAFrame) {
  Loop loop;
  for (int i = 0; i < 50; ++i) loop.Frame(milliseconds(2), milliseconds(1));
  loop.Frame(2 * kFrameInterval, milliseconds(1));
  for (int i = 0; i < 50; ++i) loop.Frame(milliseconds(2), milliseconds(1));
  for (std::size_t i = 52; i < 101; ++i) {
    EXPECT_GE(loop.Latency(i), kFrameInterval * 3 / 4) << i;
    EXPECT_LE(loop.Latency(i), kFrameInterval) << i;
  }
  EXPECT_NEAR(SecondsOf(loop.Span()), SecondsOf(kFrameInterval * 100), 1e-6) << "not one frame was lost";
}

TEST(FramePacer, AStallOfMoreThanFourIntervalsIsNotMadeGood) {
  Loop loop;
  for (int i = 0; i < 30; ++i) loop.Frame(milliseconds(2), milliseconds(1));
  loop.Frame(seconds(2), milliseconds(1));
  for (int i = 0; i < 30; ++i) loop.Frame(milliseconds(2), milliseconds(1));
  for (std::size_t i = 32; i < 61; ++i) EXPECT_EQ(loop.Latency(i), kFrameInterval) << i;
}

TEST(FramePacer, ANewIntervalAppliesFromTheNextFrame) {
  Loop loop;
  for (int i = 0; i < 30; ++i) loop.Frame(milliseconds(2), milliseconds(1));
  for (int i = 0; i < 30; ++i) loop.Frame(milliseconds(2), milliseconds(1), {}, milliseconds(50));
  EXPECT_EQ(loop.Latency(30), milliseconds(50));
  for (int i = 0; i < 30; ++i) loop.Frame(milliseconds(2), milliseconds(1), {}, kFrameInterval);
  EXPECT_EQ(loop.Latency(60), kFrameInterval);
}

TEST(FramePacer, AProgramTooSlowForItsPaceIsNeverDelayed) {
  Loop loop;
  for (int i = 0; i < 100; ++i) loop.Frame(milliseconds(20), milliseconds(1));
  EXPECT_EQ(loop.Span(), 99 * milliseconds(21));
}

TEST(FramePacer, SynchronisesWhileFramesHaveSomeSlack) {
  Loop loop;
  for (int i = 0; i < 200; ++i) {
    loop.Frame(i % 10 == 0 ? milliseconds(1) : milliseconds(18), milliseconds(1));
    EXPECT_TRUE(loop.pacer.WorthSynchronising()) << i;
  }
  for (int i = 0; i < 40; ++i) loop.Frame(milliseconds(30), milliseconds(1));
  EXPECT_FALSE(loop.pacer.WorthSynchronising());
  loop.Frame(milliseconds(1), milliseconds(1));
  EXPECT_TRUE(loop.pacer.WorthSynchronising());
}

TEST(LateFrameStart, FramesEndOneIntervalApartAndShowLateInput) {
  Loop loop;
  for (int i = 0; i < 100; ++i) loop.LateFrame(milliseconds(3), milliseconds(1));
  for (std::size_t i = 30; i < 100; ++i) {
    EXPECT_EQ(loop.Latency(i), kFrameInterval) << i;
    EXPECT_EQ(loop.inputs[i], milliseconds(4) + kFrameInterval / 8) << i;
  }
}

TEST(LateFrameStart, TheFirstFramesAreNotDelayed) {
  Loop loop;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(loop.pacer.StartAt(kFrameInterval), Instant{}) << i;
    loop.LateFrame(milliseconds(3), milliseconds(1));
  }
  EXPECT_GT(loop.pacer.StartAt(kFrameInterval), loop.now);
  EXPECT_EQ(loop.pacer.StartAt(Duration{0}), Instant{}) << "no pace";
}

TEST(LateFrameStart, CompensatesForLateWakeUps) {
  Loop loop;
  for (int i = 0; i < 100; ++i) loop.LateFrame(milliseconds(3), milliseconds(1), microseconds(400));
  EXPECT_LE(loop.Latency(99), kFrameInterval + microseconds(1));
  EXPECT_EQ(loop.Span() / 99, kFrameInterval);
}

// A longer frame raises the estimate for some hundreds of frames, so that the next frames like it are not late.
TEST(LateFrameStart, LeavesTimeForTheLongestOfTheLastFrames) {
  Loop loop;
  for (int i = 0; i < 1'000; ++i) loop.LateFrame(i % 50 == 0 ? milliseconds(8) : milliseconds(3), milliseconds(1));
  for (std::size_t i = 100; i < 1'000; ++i) EXPECT_LE(loop.Latency(i), kFrameInterval + microseconds(10)) << i;
}

TEST(LateFrameStart, AProgramWithoutTimeToSpareIsNeverDelayed) {
  Loop loop;
  for (int i = 0; i < 100; ++i) loop.LateFrame(milliseconds(20), milliseconds(1));
  EXPECT_EQ(loop.Span(), 99 * milliseconds(21));
}

Duration Us(int us) { return microseconds(us); }

// For any work that fits: the mean rate is the promised one, up to the error of the last frame.
RC_GTEST_PROP(FramePacerLaw, TheMeanRateIsThePromisedOneWhereTheWorkFits, ()) {
  Loop loop;
  const auto frames = *rc::gen::container<std::vector<std::pair<int, int>>>(
      400, rc::gen::pair(rc::gen::inRange(0, 8'000), rc::gen::inRange(0, 4'000)));
  for (const auto& [work, present] : frames) loop.Frame(Us(work), Us(present));
  const Duration error = loop.Span() - 399 * kFrameInterval;
  RC_ASSERT(std::abs(SecondsOf(error)) <= 0.009);
}

// A late frame start changes when a program begins, and not how many frames it shows.
RC_GTEST_PROP(FramePacerLaw, TheMeanRateIsThePromisedOneWithALateFrameStart, ()) {
  Loop loop;
  const auto frames = *rc::gen::container<std::vector<std::pair<int, int>>>(
      400, rc::gen::pair(rc::gen::inRange(0, 8'000), rc::gen::inRange(0, 4'000)));
  for (const auto& [work, present] : frames) loop.LateFrame(Us(work), Us(present));
  RC_ASSERT(std::abs(SecondsOf(loop.Span() - 399 * kFrameInterval)) <= 0.009);
}

// No frame is held longer than 5/4 of an interval after the last one, in any state.
RC_GTEST_PROP(FramePacerLaw, NoFrameIsHeldForLongerThanItsBound, ()) {
  Loop loop;
  const auto frames = *rc::gen::container<std::vector<std::pair<int, int>>>(
      100, rc::gen::pair(rc::gen::inRange(0, 200'000), rc::gen::inRange(0, 200'000)));
  for (const auto& [work, present] : frames) {
    const Instant before = loop.now;
    if (!loop.ends.empty()) RC_ASSERT(loop.pacer.SubmitAt(kFrameInterval) <= before + kFrameInterval * 5 / 4);
    loop.Frame(Us(work), Us(present));
  }
}

}  // namespace
}  // namespace weir::core
