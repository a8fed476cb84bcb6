// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/frame_costs.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weir::cli {
namespace {

constexpr std::int64_t kMsNs = 1'000'000;
constexpr std::int64_t kStart = 1000 * kMsNs;

/// Frames of 10 ms for four seconds, with the GPU time that `gpu` returns.
proto::Trace TraceWith(const std::string& meter, std::uint64_t (*gpu)(int frame)) {
  proto::Trace trace;
  trace.processes.push_back({.pid = 1, .program = "p", .api = "gl", .renderer = "r", .meter = meter});
  for (int i = 0; i < 400; ++i)
    trace.frames.push_back(
        {.begin_ns = kStart + i * 10 * kMsNs, .think_ns = 4 * kMsNs, .present_ns = 6 * kMsNs, .gpu_ns = gpu(i)});
  return trace;
}

std::uint64_t Even(int) { return 2 * kMsNs; }
std::uint64_t Wild(int frame) { return (frame % 5) * 7 * kMsNs; }

Duration Sum(const std::vector<Duration>& costs, std::size_t from, std::size_t to) {
  return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(from),
                         costs.begin() + static_cast<std::ptrdiff_t>(to), Duration{});
}

TEST(FrameCosts, WithoutChargesTheyAreWhatTheMeterSaid) {
  const auto costs = FrameCosts(TraceWith("wall-clock", Wild));
  EXPECT_EQ(costs[3], milliseconds(21));
  EXPECT_EQ(costs[5], milliseconds(0));
}

TEST(FrameCosts, AddUpToWhatWasCharged) {
  for (const char* meter : {"wall-clock", "timer-query", "worker-cpu-time"}) {
    proto::Trace trace = TraceWith(meter, Wild);
    // 3 ms a frame in the first two seconds, then 5 ms.
    for (int i = 0; i <= 20; ++i)
      trace.charges.push_back(
          {kStart + i * 200 * kMsNs, static_cast<std::uint64_t>((i * 60 + std::max(i - 10, 0) * 40) * kMsNs)});
    const auto costs = FrameCosts(trace);
    EXPECT_NEAR(MillisecondsOf(Sum(costs, 0, 200)), 600, 0.1) << meter;
    EXPECT_NEAR(MillisecondsOf(Sum(costs, 200, 400)), 1000, 0.1) << meter;
  }
}

TEST(FrameCosts, TheWallClockSaysNothingOfASingleFrame) {
  proto::Trace trace = TraceWith("wall-clock", Wild);
  trace.charges = {{kStart, 0}, {kStart + 4000 * kMsNs, 1200 * kMsNs}};
  const auto costs = FrameCosts(trace);
  for (std::size_t i = 0; i < costs.size(); ++i) EXPECT_NEAR(MillisecondsOf(costs[i]), 3, 0.001) << i;
}

TEST(FrameCosts, AWorkersTimeIsThatOfItsFrame) {
  proto::Trace trace = TraceWith("worker-cpu-time", Wild);
  trace.charges = {{kStart, 0}, {kStart + 4000 * kMsNs, 400 * 28 * kMsNs}};  // twice what it said
  const auto costs = FrameCosts(trace);
  EXPECT_NEAR(MillisecondsOf(costs[1]), 14, 0.001);
  EXPECT_NEAR(MillisecondsOf(costs[2]), 28, 0.001);
}

TEST(FrameCosts, BeforeAndAfterTheChargesFramesCostWhatThoseNextToThemDo) {
  proto::Trace trace = TraceWith("worker-cpu-time", Even);
  trace.charges = {
      {kStart + 1000 * kMsNs, 0}, {kStart + 2000 * kMsNs, 300 * kMsNs}, {kStart + 3000 * kMsNs, 700 * kMsNs}};
  const auto costs = FrameCosts(trace);
  EXPECT_NEAR(MillisecondsOf(costs.front()), 3, 0.001);
  EXPECT_NEAR(MillisecondsOf(costs.back()), 4, 0.001);
}

TEST(FrameCosts, AWildFrameAfterTheChargesCostsWhatOthersDo) {
  proto::Trace trace = TraceWith("worker-cpu-time", Even);
  trace.charges = {{kStart, 0}, {kStart + 3900 * kMsNs, 390 * 3 * kMsNs}};
  trace.frames.back().gpu_ns = 10'000 * kMsNs;
  EXPECT_NEAR(MillisecondsOf(FrameCosts(trace).back()), 3, 0.001);
}

TEST(FrameCosts, AFrameThatIsCutCountsByItsPart) {
  EXPECT_DOUBLE_EQ(PartInside(0, 100, 0, 100), 1);
  EXPECT_DOUBLE_EQ(PartInside(0, 100, 75, 1000), 0.25);
  EXPECT_DOUBLE_EQ(PartInside(0, 100, 20, 30), 0.1);
  EXPECT_DOUBLE_EQ(PartInside(0, 100, 100, 200), 0);
  EXPECT_DOUBLE_EQ(PartInside(50, 50, 50, 60), 1);
  EXPECT_DOUBLE_EQ(PartInside(60, 60, 50, 60), 0);
}

}  // namespace
}  // namespace weir::cli
