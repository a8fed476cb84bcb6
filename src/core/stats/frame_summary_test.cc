// SPDX-License-Identifier: Apache-2.0
#include "core/stats/frame_summary.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace weir::core {
namespace {

/// Consecutive frames, each presented in the last microsecond of its time.
std::vector<FrameTimes> Stream(const std::vector<Duration>& times) {
  std::vector<FrameTimes> frames;
  Instant now = InstantFromNs(1'000'000'000);
  for (const Duration time : times) {
    const Instant end = now + time;
    frames.push_back({now, end - microseconds(1), end - microseconds(1), end, {}});
    now = end;
  }
  return frames;
}

std::vector<Duration> Times(std::size_t count, Duration each) { return std::vector<Duration>(count, each); }

TEST(FrameSummary, RateIsFramesOverTimeAndNotTheMeanOfRates) {
  const FrameSummary summary = Summarize(Stream({milliseconds(10), milliseconds(30)}), {});
  EXPECT_NEAR(summary.fps, 50, 1e-9);  // the mean of 100 and 33 would be 67
  EXPECT_EQ(summary.mean, milliseconds(20));
}

TEST(FrameSummary, InputToPresentLeavesOutTheDelayBeforeAFrame) {
  std::vector<FrameTimes> frames = Stream(Times(100, milliseconds(33)));
  for (FrameTimes& frame : frames) frame.start_delay = milliseconds(24);
  frames[7].start_delay = frames[8].start_delay = milliseconds(1);
  const FrameSummary summary = Summarize(frames, {});
  EXPECT_EQ(summary.input_p50, milliseconds(9));
  EXPECT_EQ(summary.input_p99, milliseconds(32));
  EXPECT_EQ(summary.p99, milliseconds(33)) << "the frame time is the same";
}

TEST(FrameSummary, PercentilesAreNearestRank) {
  std::vector<Duration> times;
  for (int i = 100; i >= 1; --i) times.push_back(milliseconds(i));
  const FrameSummary summary = Summarize(Stream(times), {});
  EXPECT_EQ(summary.p50, milliseconds(50));
  EXPECT_EQ(summary.p95, milliseconds(95));
  EXPECT_EQ(summary.p99, milliseconds(99));
  EXPECT_EQ(summary.max, milliseconds(100));
}

// Four hitches of half a second in 20 s. The percentile counts frames, so it does not show them (CapFrameX's glossary).
TEST(FrameSummary, TheThreeLowsTellOneRecordingApart) {
  std::vector<Duration> times = Times(1080, microseconds(16'667));
  times.insert(times.end(), 4, milliseconds(500));
  const FrameSummary summary = Summarize(Stream(times), {});
  EXPECT_NEAR(summary.low_1_percent.percentile, 60, 0.01);
  // 1 % of 1084 frames is 11: the four hitches and seven usual frames.
  EXPECT_NEAR(summary.low_1_percent.slowest_mean, 11 / (4 * 0.5 + 7 * 0.016667), 0.01);
  EXPECT_NEAR(summary.low_1_percent.integral, 2, 0.01);
  EXPECT_NEAR(summary.low_0_1_percent.percentile, 2, 0.01);
}

TEST(FrameSummary, OneFrameIsItsOwnLow) {
  const FrameSummary summary = Summarize(Stream({milliseconds(20)}), {});
  for (const LowRates& low : {summary.low_1_percent, summary.low_0_1_percent}) {
    EXPECT_NEAR(low.percentile, 50, 1e-9);
    EXPECT_NEAR(low.slowest_mean, 50, 1e-9);
    EXPECT_NEAR(low.integral, 50, 1e-9);
  }
}

TEST(FrameSummary, WithoutFramesThereAreNoFigures) {
  const FrameSummary summary = Summarize({}, {.fps = 60});
  EXPECT_EQ(summary.frames, 0U);
  EXPECT_EQ(summary.fps, 0);
  EXPECT_EQ(summary.low_1_percent.integral, 0);
}

TEST(FrameSummary, AFirstPresentCountsButHasNoFrameTime) {
  std::vector<FrameTimes> frames = Stream({milliseconds(1), milliseconds(10)});
  frames[0].begin = frames[0].present;
  const FrameSummary summary = Summarize(frames, {});
  EXPECT_EQ(summary.frames, 2U);
  EXPECT_EQ(summary.timed_frames, 1U);
  EXPECT_EQ(summary.p50, milliseconds(10));
}

TEST(FrameSummary, LateIsBeyondThePromise) {
  const auto frames = Stream({milliseconds(17), milliseconds(18), milliseconds(31)});  // 60 fps: late after 17.7 ms
  EXPECT_EQ(Summarize(frames, {.fps = 60}).late, 2U);
  EXPECT_EQ(Summarize(frames, {.fps = 60, .latency = milliseconds(30)}).late, 1U);
  EXPECT_EQ(Summarize(frames, {}).late, 0U);
}

TEST(FrameSummary, AMispredictedPresentIsOffByMoreThanTwoMilliseconds) {
  const Instant t = InstantFromNs(1'000'000'000);
  auto frame = [t](Duration took, Duration predicted) {
    return FrameTimes{t, t + milliseconds(1), t + milliseconds(2), t + milliseconds(2) + took, predicted};
  };
  const std::vector<FrameTimes> frames{frame(milliseconds(5), {}),                   // no prediction
                                       frame(milliseconds(5), milliseconds(3)),      // just within the tolerance
                                       frame(milliseconds(1), milliseconds(3)),      // just within the tolerance
                                       frame(milliseconds(6), milliseconds(3)),      // too slow
                                       frame(microseconds(1), microseconds(2002))};  // too fast
  const FrameSummary summary = Summarize(frames, {});
  EXPECT_EQ(summary.predicted, 4U);
  EXPECT_EQ(summary.mispredicted, 2U);
}

// -- Laws --------------------------------------------------------------------------------------------------------

std::vector<Duration> AnyTimes() {
  // Frames of a game with occasional outliers: enough frames that the slowest 1 % is more than one frame.
  const auto usual = rc::gen::inRange<std::int64_t>(1'000, 40'000);
  const auto any = rc::gen::inRange<std::int64_t>(2, 4'000'000);
  const auto us = *rc::gen::nonEmpty(
      rc::gen::scale(10, rc::gen::container<std::vector<std::int64_t>>(rc::gen::oneOf(usual, usual, usual, any))));
  std::vector<Duration> times;
  for (const std::int64_t one : us) times.push_back(microseconds(one));
  return times;
}

constexpr double kRounding = 1 + 1e-9;

RC_GTEST_PROP(FrameSummary, LowsAreInOrderOnAnyStream, ()) {
  const FrameSummary s = Summarize(Stream(AnyTimes()), {});
  for (const LowRates& low : {s.low_1_percent, s.low_0_1_percent}) {
    RC_ASSERT(low.slowest_mean <= low.percentile * kRounding);
    RC_ASSERT(low.integral <= low.percentile * kRounding);
    RC_ASSERT(low.slowest_mean <= s.fps * kRounding);
    // Frames up to the integral's own one fill at least 99 % of the time, so it can't lie further above the mean. (The
    // percentile can: one long frame among a thousand lowers the mean and not the percentile.)
    RC_ASSERT(low.integral * 0.99 <= s.fps * kRounding);
  }
  RC_ASSERT(s.low_0_1_percent.percentile <= s.low_1_percent.percentile * kRounding);
  RC_ASSERT(s.low_0_1_percent.slowest_mean <= s.low_1_percent.slowest_mean * kRounding);
  RC_ASSERT(s.low_0_1_percent.integral <= s.low_1_percent.integral * kRounding);
}

RC_GTEST_PROP(FrameSummary, PercentilesAreFrameTimesInOrder, ()) {
  const std::vector<Duration> times = AnyTimes();
  const FrameSummary s = Summarize(Stream(times), {});
  RC_ASSERT(s.p50 <= s.p95 && s.p95 <= s.p99 && s.p99 <= s.max);
  for (const Duration p : {s.p50, s.p95, s.p99, s.max})
    RC_ASSERT(std::find(times.begin(), times.end(), p) != times.end());
  const auto within = std::count_if(times.begin(), times.end(), [&](Duration t) { return t <= s.p99; });
  RC_ASSERT(within * 100 >= static_cast<std::ptrdiff_t>(times.size()) * 99);
}

RC_GTEST_PROP(FrameSummary, TheOrderOfFramesDoesNotMatterToTheLows, ()) {
  std::vector<Duration> times = AnyTimes();
  const FrameSummary one = Summarize(Stream(times), {});
  std::ranges::reverse(times);
  const FrameSummary other = Summarize(Stream(times), {});
  RC_ASSERT(one.low_1_percent.integral == other.low_1_percent.integral);
  RC_ASSERT(one.low_1_percent.slowest_mean == other.low_1_percent.slowest_mean);
  RC_ASSERT(one.p95 == other.p95);
}

RC_GTEST_PROP(FrameSummary, FramesTwiceAsLongHaveHalfTheRates, ()) {
  std::vector<Duration> times = AnyTimes();
  const FrameSummary one = Summarize(Stream(times), {});
  for (Duration& time : times) time *= 2;
  const FrameSummary slow = Summarize(Stream(times), {});
  auto is_half = [](double half, double whole) { return std::abs(half * 2 - whole) <= whole * 1e-9; };
  RC_ASSERT(is_half(slow.fps, one.fps));
  RC_ASSERT(is_half(slow.low_1_percent.percentile, one.low_1_percent.percentile));
  RC_ASSERT(is_half(slow.low_1_percent.slowest_mean, one.low_1_percent.slowest_mean));
}

}  // namespace
}  // namespace weir::core
