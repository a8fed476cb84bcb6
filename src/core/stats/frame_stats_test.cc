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

TEST(FrameStats, HistogramsHaveEveryFrameAndItsWaitSinceTheFirst) {
  FrameStats stats;
  EXPECT_EQ(stats.histograms().latency.Cumulative().counts.back(), 0U);
  Instant now = InstantFromNs(5'000'000'000);
  for (int i = 0; i < 100; ++i) {
    FrameDone frame = FrameAt(now += seconds(1), milliseconds(i < 90 ? 17 : 19));
    frame.wait = milliseconds(i < 40 ? 0 : 7);
    stats.Add(frame, {});
  }
  const CumulativeCounts latency = stats.histograms().latency.Cumulative();
  const CumulativeCounts wait = stats.histograms().wait.Cumulative();
  const auto up_to = [](const CumulativeCounts& all, Duration bound) {
    return all.counts[static_cast<std::size_t>(std::ranges::find(all.bounds, bound) - all.bounds.begin())];
  };
  EXPECT_EQ(up_to(latency, microseconds(14'500)), 0U);
  EXPECT_EQ(up_to(latency, milliseconds(18)), 90U);
  EXPECT_EQ(up_to(latency, milliseconds(21)), 100U);
  EXPECT_EQ(latency.counts.back(), stats.totals().frames);
  EXPECT_EQ(up_to(wait, milliseconds(5)), 40U);
  EXPECT_EQ(wait.counts.back(), stats.totals().frames);
  EXPECT_EQ(wait.sum, stats.totals().wait);
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

/// A frame that takes `think` of its program and `gpu` of the device, and waits where it says.
FrameDone FrameOf(Duration think, Duration gpu, Duration gate = {}, Duration pace = {}, Duration queue = {}) {
  const Instant begin = InstantFromNs(5'000'000'000);
  return {.begin = begin,
          .present = begin + think,
          .end = begin + think + gate + pace + queue + gpu,
          .gpu = gpu,
          .wait = gate,
          .pace = pace,
          .took = queue + gpu};
}

constexpr FramePromise kSixty{.fps = 60};  // late after 17.7 ms

TEST(BrokenPromise, AFrameThatWaitedAnywhereAndIsLateBreaksIt) {
  const Duration think = milliseconds(5), gpu = milliseconds(5), wait = milliseconds(9), others = seconds(1);
  EXPECT_FALSE(kSixty.BrokenBy(FrameOf(think, gpu), others));
  EXPECT_TRUE(kSixty.BrokenBy(FrameOf(think, gpu, wait), others)) << "at the gate";
  EXPECT_TRUE(kSixty.BrokenBy(FrameOf(think, gpu, {}, wait), others)) << "delayed, because it gives way";
  EXPECT_TRUE(kSixty.BrokenBy(FrameOf(think, gpu, {}, {}, wait), others)) << "behind others in the driver's queue";
  EXPECT_FALSE(kSixty.BrokenBy(FrameOf(think, gpu, milliseconds(7)), others)) << "it is in time";
  EXPECT_TRUE(kSixty.BrokenBy(FrameOf(think, gpu, milliseconds(3), milliseconds(3), milliseconds(3)), others));
}

TEST(BrokenPromise, AProgramThatAsksLessOftenDoesNotBreakIt) {
  const Duration gpu = milliseconds(5), others = seconds(1);
  EXPECT_FALSE(kSixty.BrokenBy(FrameOf(milliseconds(50), gpu), others));
  EXPECT_FALSE(kSixty.BrokenBy(FrameOf(milliseconds(50), gpu, milliseconds(10)), others))
      << "served within an interval";
  EXPECT_TRUE(kSixty.BrokenBy(FrameOf(milliseconds(50), gpu, milliseconds(20)), others)) << "not within an interval";
  EXPECT_FALSE(kSixty.BrokenBy(FrameOf(milliseconds(1), milliseconds(25)), others)) << "its frames are too expensive";
  FrameDone vsync = FrameOf(milliseconds(30), gpu);  // its present waits for a blank, which is in the next frame
  vsync.present_follows = true;
  EXPECT_FALSE(kSixty.BrokenBy(vsync, others));
}

TEST(BrokenPromise, AFrameWaitsForOthersNoLongerThanTheyUsedTheDevice) {
  const FrameDone blocked = FrameOf(milliseconds(5), milliseconds(5), {}, {}, milliseconds(20));
  EXPECT_FALSE(kSixty.BrokenBy(blocked, Duration{0})) << "a vertical blank, or a driver's limit";
  EXPECT_FALSE(kSixty.BrokenBy(blocked, milliseconds(10)));
  EXPECT_TRUE(kSixty.BrokenBy(blocked, milliseconds(13)));
}

TEST(BrokenPromise, HoldsForLatenciesAndTasks) {
  const FramePromise latency{.latency = milliseconds(30)}, none{}, tasks{.fps = 500};
  const FrameDone frame = FrameOf(milliseconds(5), milliseconds(5), milliseconds(21));
  EXPECT_TRUE(latency.BrokenBy(frame, seconds(1)));
  EXPECT_FALSE(none.BrokenBy(frame, seconds(1)));
  FrameDone batch = frame;
  batch.count = 15;  // 30 ms and 1 ms
  EXPECT_FALSE(tasks.BrokenBy(batch, seconds(1)));
  batch.count = 10;
  EXPECT_TRUE(tasks.BrokenBy(batch, seconds(1)));
  batch.count = 0;
  EXPECT_FALSE(tasks.BrokenBy(batch, seconds(1))) << "a part of a task";
}

TEST(BrokenPromise, IsCounted) {
  FrameStats stats;
  stats.Add(FrameOf(milliseconds(5), milliseconds(5), milliseconds(9)), kSixty, seconds(1));
  stats.Add(FrameOf(milliseconds(50), milliseconds(5)), kSixty, seconds(1));
  stats.Add(FrameOf(milliseconds(5), milliseconds(5), milliseconds(9)), kSixty, std::nullopt);
  EXPECT_EQ(stats.totals().late_frames, 3U);
  EXPECT_EQ(stats.totals().broken_frames, 1U) << "the last one's vGPU had all that it may use";
}

RC_GTEST_PROP(BrokenPromise, OnlyALateFrameBreaksItAndAWaitOnlyMakesItWorse, ()) {
  const auto ms = [](int most) { return milliseconds(*rc::gen::inRange(0, most)); };
  const FramePromise promise{.fps = static_cast<double>(*rc::gen::inRange(1, 200))};
  const Duration think = ms(40), gpu = ms(40), gate = ms(40), pace = ms(40), queue = ms(40), others = ms(200);
  const FrameDone frame = FrameOf(think, gpu, gate, pace, queue);
  RC_ASSERT(frame.Own() == think + gpu);
  RC_ASSERT(frame.Held() == gate + pace);
  RC_ASSERT(frame.Queued() == queue);
  const bool broken = promise.BrokenBy(frame, others);
  if (frame.Latency() <= promise.LateAfter()) RC_ASSERT(!broken);
  if (others == Duration{0} && gate + pace == Duration{0}) RC_ASSERT(!broken);
  if (think + gpu <= promise.LateAfter() && others >= queue)
    RC_ASSERT(broken == (frame.Latency() > promise.LateAfter()));
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

// Only a false record is this old. Its bucket has been used again for the newest frames.
TEST(FrameStats, ARecordThatIsTooOldDoesNotCountAsANewFrame) {
  FrameStats stats;
  const Instant now = InstantFromNs(5'050'000'000);
  stats.Add(FrameAt(now, milliseconds(10)), {});
  for (int tenths = 1; tenths <= 20; ++tenths)
    stats.Add(FrameAt(now - milliseconds(100 * tenths), milliseconds(10)), {});
  EXPECT_EQ(stats.Rate(now + milliseconds(100)), 10) << "of the last ten tenths of a second, one each";
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
