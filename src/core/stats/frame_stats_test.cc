// SPDX-License-Identifier: Apache-2.0
#include "core/stats/frame_stats.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace weir::core {
namespace {

FrameDone FrameAt(Instant end, Duration latency) { return {.begin = end - latency, .present = end, .end = end}; }

TEST(FrameStats, RateIsOfTheLastSecond) {
  FrameStats stats;
  Instant now = InstantFromNs(5'000'000'000);
  for (int i = 0; i < 300; ++i) stats.Add(FrameAt(now += milliseconds(10), milliseconds(10)), {});
  const FrameWindow window = stats.Window(now);
  EXPECT_NEAR(window.fps, 100, 1);
  EXPECT_EQ(window.mean, milliseconds(10));
  EXPECT_EQ(stats.Window(now + seconds(3)).frames, 0U);
  EXPECT_EQ(stats.totals().frames, 300U);
}

TEST(FrameStats, AFrameIsLateBeyondItsPromise) {
  FrameStats stats;
  const Instant now = InstantFromNs(5'000'000'000);
  const FramePromise fps{.fps = 50};  // late after 21 ms
  stats.Add(FrameAt(now, milliseconds(21)), fps);
  stats.Add(FrameAt(now, microseconds(21'001)), fps);
  EXPECT_EQ(stats.totals().late_frames, 1U);
  stats.Add(FrameAt(now, milliseconds(31)), {.fps = 50, .latency = milliseconds(30)});  // the latency bound takes
                                                                                        // precedence
  EXPECT_EQ(stats.totals().late_frames, 2U);
  stats.Add(FrameAt(now, seconds(1)), {});  // no promise, never late
  EXPECT_EQ(stats.totals().late_frames, 2U);
}

TEST(FrameStats, RateIsThatOfTheFastestLoop) {
  FrameStats stats;
  Instant now = InstantFromNs(5'000'000'000);
  for (int i = 0; i < 200; ++i) {
    now += milliseconds(10);
    FrameDone frame = FrameAt(now, milliseconds(10));
    frame.loop = 7;
    stats.Add(frame, {});
    frame.loop = 8;
    if (i % 4 == 0) stats.Add(frame, {});
  }
  EXPECT_NEAR(stats.Rate(now), 100, 1);
  EXPECT_NEAR(stats.Window(now).fps, 100, 1) << "a promise holds for each window";
  EXPECT_NEAR(static_cast<double>(stats.Window(now).frames), 125, 2);
  EXPECT_EQ(stats.Rate(now + seconds(2)), 0);
}

TEST(FrameStats, RatesAreOfTheTasksThatEndedWithARecord) {
  FrameStats stats;
  Instant now = InstantFromNs(5'000'000'000);
  const FramePromise promise{.fps = 500};  // 2 ms for each task
  for (int i = 0; i < 200; ++i) {
    now += milliseconds(10);
    FrameDone batch = FrameAt(now, milliseconds(10));
    batch.count = i % 2 == 0 ? 8 : 0;  // no task ends with every other batch
    stats.Add(batch, promise);
  }
  EXPECT_NEAR(stats.Rate(now), 400, 8);
  EXPECT_EQ(stats.totals().tasks, 800U);
  EXPECT_EQ(stats.totals().frames, 200U);
  EXPECT_EQ(stats.totals().late_frames, 0U) << "eight in 10 ms are not late";
  FrameDone slow = FrameAt(now, milliseconds(10));
  slow.count = 4;
  stats.Add(slow, promise);
  EXPECT_EQ(stats.totals().late_frames, 1U);
}

TEST(FrameStats, ExcessLoopsEvictTheSilentOnes) {
  FrameStats stats;
  Instant now = InstantFromNs(5'000'000'000);
  for (int i = 0; i < 2'000; ++i) {
    now += milliseconds(1);
    FrameDone frame = FrameAt(now, milliseconds(1));
    frame.loop = static_cast<std::uint64_t>(i < 1'000 ? i : 5'000);  // a thousand windows of one frame each, then one
                                                                     // window
    stats.Add(frame, {});
  }
  EXPECT_NEAR(stats.Rate(now), 1'000, 101);
}

TEST(FrameStats, APredictionFailsBeyondTwoMilliseconds) {
  FrameStats stats;
  const auto add = [&](Duration took, Duration predicted) {
    FrameDone frame = FrameAt(InstantFromNs(5'000'000'000), milliseconds(10));
    frame.took = took;
    frame.predicted = predicted;
    stats.Add(frame, {});
  };
  add(milliseconds(9), Duration{0});  // no prediction
  add(milliseconds(3), milliseconds(5));
  add(milliseconds(7), milliseconds(5));
  EXPECT_EQ(stats.totals().mispredicted, 0U);
  add(microseconds(2'999), milliseconds(5));
  add(microseconds(7'001), milliseconds(5));
  EXPECT_EQ(stats.totals().mispredicted, 2U);
  EXPECT_EQ(stats.totals().predicted, 4U);
}

TEST(FrameStats, PercentilesForgetOldFrames) {
  FrameStats stats;
  Instant now = InstantFromNs(1'000'000'000);
  stats.Add(FrameAt(now, seconds(2)), {});
  for (int i = 0; i < 1100; ++i) stats.Add(FrameAt(now += milliseconds(10), milliseconds(10)), {});
  EXPECT_EQ(stats.Window(now).max, milliseconds(10));
  EXPECT_EQ(stats.Window(now + seconds(20)).p99, Duration{0});
}

RC_GTEST_PROP(LogHistogram, PercentilesAreNearestRankWithinOnePercent, ()) {
  auto us = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(100, 7'200'000'000)));
  LogHistogram histogram;
  for (const std::int64_t v : us) histogram.Add(microseconds(v));
  std::ranges::sort(us);
  for (const double p : {0.01, 0.5, 0.95, 0.99, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(p * static_cast<double>(us.size()) - 1e-9)));
    const double exact = static_cast<double>(us[rank - 1]);
    RC_ASSERT(std::abs(static_cast<double>(histogram.Percentile(p).count()) / 1000 - exact) <= exact * 0.01 + 1);
  }
}

}  // namespace
}  // namespace weir::core
