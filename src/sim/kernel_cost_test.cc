// SPDX-License-Identifier: Apache-2.0
#include "sim/kernel_cost.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace weir::sim {
namespace {

constexpr double kCacheBytes = 1'000;

ClusterDevices FourBlocks() {
  return {.memory = MiB(100), .processors = 4, .threads = 400, .blocks = 8, .bytes_per_s = 1e9, .cache = Bytes{1'000}};
}

double UsedOf(std::span<const KernelCost> together, std::span<const double> speeds, double KernelCost::*part) {
  double sum = 0;
  for (std::size_t i = 0; i < together.size(); ++i) sum += together[i].*part * speeds[i];
  return sum;
}

rc::Gen<KernelCost> AnyCost() {
  return rc::gen::map(rc::gen::container<std::array<int, 5>>(rc::gen::inRange(0, 101)), [](const auto& drawn) {
    return KernelCost{.seconds = 1,
                      .threads = drawn[0] / 100.0,
                      .blocks = drawn[1] / 100.0,
                      .traffic = drawn[2] / 50.0,
                      .local_traffic = drawn[3] / 50.0,
                      .local_bytes = drawn[4] * 20.0};
  });
}

TEST(KernelCost, ALaunchTakesWhatItsBusiestProcessorTakes) {
  const ClusterDevices device = FourBlocks();
  ClusterKernel kernel{.name = "k", .blocks = 4, .threads = 100, .per_thread = milliseconds(1)};
  EXPECT_NEAR(CostOf(kernel, device).seconds, 0.1, 1e-9);
  EXPECT_NEAR(CostOf(kernel, device).threads, 1, 1e-9);
  EXPECT_NEAR(CostOf(kernel, device).blocks, 0.5, 1e-9);
  kernel.blocks = 5;
  EXPECT_NEAR(CostOf(kernel, device).seconds, 0.2, 1e-9);
  kernel.threads = 50;  // two blocks at once on each processor
  EXPECT_NEAR(CostOf(kernel, device).seconds, 0.1, 1e-9);
  EXPECT_NEAR(CostOf(kernel, device).threads, 0.625, 1e-9);
}

TEST(KernelCost, LocalMemoryThatTheCacheDoesNotHoldIsTraffic) {
  KernelCost cost{.seconds = 1, .threads = 0.1, .local_traffic = 4, .local_bytes = 1'000};
  EXPECT_EQ(SpeedsOf(std::array{cost}, kCacheBytes).front(), 1);
  // Half of the local memory misses the cache, which is twice the bandwidth of global memory.
  cost.local_bytes = 2'000;
  EXPECT_NEAR(SpeedsOf(std::array{cost}, kCacheBytes).front(), 0.5, 1e-12);
}

TEST(KernelCost, TwoThatTheCacheHoldsAloneThrashItTogether) {
  const KernelCost cost{.seconds = 1, .threads = 0.1, .local_traffic = 4, .local_bytes = 1'000};
  const auto speeds = SpeedsOf(std::array{cost, cost}, kCacheBytes);
  EXPECT_NEAR(speeds[0], 0.25, 1e-12);
  EXPECT_NEAR(speeds[1], 0.25, 1e-12);
}

TEST(KernelCost, WhoAsksForLittleIsNotSlowedByWhoAsksForMuch) {
  const KernelCost little{.seconds = 1, .threads = 0.01}, much{.seconds = 1, .threads = 1};
  const auto speeds = SpeedsOf(std::array{little, much, much}, kCacheBytes);
  EXPECT_EQ(speeds[0], 1);
  EXPECT_NEAR(speeds[1], 0.495, 1e-12);
}

TEST(KernelCost, OnADeviceThatGivesTurnsTheyShareTimeWhateverTheyLoad) {
  ClusterDevices device = FourBlocks();
  device.turn_loss = 0.1;
  const KernelCost one = CostOf({.name = "k", .threads = 1, .kernel = milliseconds(10), .processing = 0.01}, device);
  EXPECT_EQ(SpeedsOf(std::array{one}, kCacheBytes).front(), 1);
  for (const double speed : SpeedsOf(std::array{one, one, one}, kCacheBytes)) EXPECT_NEAR(speed, 0.9 / 3, 1e-12);
}

TEST(KernelCost, WhatIsMeasuredAloneIsWhatItDoesAlone) {
  const ClusterKernel kernel{
      .name = "k", .memory = MiB(3), .blocks = 4, .threads = 50, .kernel = seconds(2), .bytes_per_s = 2e9};
  const core::RunNeed need = MeasuredAlone(kernel, FourBlocks());
  // Global memory has half of the bandwidth that the kernel needs at full speed.
  EXPECT_EQ(need.alone_ms, 4'000U);
  EXPECT_EQ(need.loads, (core::Loads{0, 1'000, 100, 2}));
  EXPECT_EQ(need.memory, MiB(3));
}

RC_GTEST_PROP(KernelCostLaws, NoResourceIsUsedTwiceAndNoneThatIsWantedLiesIdle, ()) {
  const auto together = *rc::gen::resize(16, rc::gen::nonEmpty(rc::gen::container<std::vector<KernelCost>>(AnyCost())));
  const std::vector<double> speeds = SpeedsOf(together, kCacheBytes);
  double local = 0;
  for (const KernelCost& one : together) local += one.local_bytes;
  const double missed = local > kCacheBytes ? 1 - kCacheBytes / local : 0;
  const double threads = UsedOf(together, speeds, &KernelCost::threads);
  const double blocks = UsedOf(together, speeds, &KernelCost::blocks);
  const double traffic =
      UsedOf(together, speeds, &KernelCost::traffic) + missed * UsedOf(together, speeds, &KernelCost::local_traffic);
  RC_ASSERT(std::max({threads, blocks, traffic}) <= 1 + 1e-9);
  for (std::size_t i = 0; i < together.size(); ++i) {
    RC_ASSERT(speeds[i] > 0);
    RC_ASSERT(speeds[i] <= 1);
    // A kernel is slowed only by a resource that is used up.
    const bool by_threads = together[i].threads > 0 && threads > 1 - 1e-9;
    const bool by_blocks = together[i].blocks > 0 && blocks > 1 - 1e-9;
    const bool by_traffic = together[i].traffic + missed * together[i].local_traffic > 0 && traffic > 1 - 1e-9;
    if (speeds[i] < 1 - 1e-9) RC_ASSERT(by_threads || by_blocks || by_traffic);
  }
}

RC_GTEST_PROP(KernelCostLaws, AnotherKernelMakesNobodyFasterThanAlone, ()) {
  const auto together = *rc::gen::resize(8, rc::gen::nonEmpty(rc::gen::container<std::vector<KernelCost>>(AnyCost())));
  const std::vector<double> speeds = SpeedsOf(together, kCacheBytes);
  for (std::size_t i = 0; i < together.size(); ++i)
    RC_ASSERT(speeds[i] <= SpeedsOf(std::span(&together[i], 1), kCacheBytes).front() + 1e-9);
}

}  // namespace
}  // namespace weir::sim
