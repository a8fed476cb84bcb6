// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/series.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weir::cli {
namespace {

constexpr std::int64_t kPlotMs = 1'000'000;

TEST(Envelope, KeepsTheOneSlowFrameAmongThousands) {
  std::vector<Frame> frames;
  for (std::int64_t i = 1; i < 10'000; ++i) frames.push_back({i * kPlotMs, (i == 5'000 ? 90 : 1) * kPlotMs, 0});
  const auto points = Envelope(frames, 0, 10'000 * kPlotMs, 100);
  ASSERT_EQ(points.size(), 100U);
  EXPECT_DOUBLE_EQ(points[50].max_ms, 90);
  EXPECT_DOUBLE_EQ(points[50].min_ms, 1);
  EXPECT_NEAR(points[50].mean_ms, 1.89, 1e-9);
  EXPECT_DOUBLE_EQ(points[50].time_s, 5.05);
  EXPECT_DOUBLE_EQ(points[49].max_ms, 1);
}

TEST(Envelope, LeavesOutSlicesWithoutFramesAndFramesOutsideThePhase) {
  const auto points =
      Envelope({{-1, kPlotMs, 0}, {15 * kPlotMs, kPlotMs, 0}, {100 * kPlotMs, kPlotMs, 0}}, 0, 100 * kPlotMs, 10);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_DOUBLE_EQ(points[0].time_s, 0.015);
  EXPECT_TRUE(Envelope({{1, 1, 1}}, 5, 5, 10).empty());
}

TEST(GpuTimeBins, SpreadsAFrameOverTheTimeItTook) {
  const auto bins = GpuTimeBins({{30 * kPlotMs, 30 * kPlotMs, 9}}, 0, 40 * kPlotMs, 10 * kPlotMs);
  ASSERT_EQ(bins.size(), 4U);
  EXPECT_DOUBLE_EQ(bins[0], 3);
  EXPECT_DOUBLE_EQ(bins[1], 3);
  EXPECT_DOUBLE_EQ(bins[2], 3);
  EXPECT_DOUBLE_EQ(bins[3], 0);
}

TEST(GpuTimeBins, CountsOnlyThePartOfAFrameWithinThePhase) {
  const auto bins =
      GpuTimeBins({{5 * kPlotMs, 10 * kPlotMs, 8}, {25 * kPlotMs, 10 * kPlotMs, 8}}, 0, 20 * kPlotMs, 10 * kPlotMs);
  EXPECT_DOUBLE_EQ(std::accumulate(bins.begin(), bins.end(), 0.0), 8);
}

TEST(ShareBins, SumToOneInUsedBins) {
  Phase phase{"none", 0, 20 * kPlotMs, {}};
  phase.programs = {{{{10 * kPlotMs, 10 * kPlotMs, 30}}, {}, 0}, {{{10 * kPlotMs, 10 * kPlotMs, 10}}, {}, 0}};
  const auto shares = ShareBins(phase, {0, 1}, 10 * kPlotMs);
  EXPECT_DOUBLE_EQ(shares[0][0], 0.75);
  EXPECT_DOUBLE_EQ(shares[1][0], 0.25);
  EXPECT_DOUBLE_EQ(shares[0][1], 0);
}

}  // namespace
}  // namespace weir::cli
