// SPDX-License-Identifier: Apache-2.0
#include "emulator/nvml/utilization_sampler.h"

#include <gtest/gtest.h>

namespace weir::emulator {
namespace {

constexpr Instant kStart = InstantFromNs(1'000'000'000);

DeviceUse UseOf(std::vector<ClientUse> clients) {
  DeviceUse use{.busy = {}, .memory_used = {}, .clients = std::move(clients)};
  for (const ClientUse& client : use.clients) use.busy += client.compute;
  return use;
}

TEST(UtilizationSampler, TellsThePercentageOfThePeriodByProcess) {
  UtilizationSampler sampler;
  sampler.Take(kStart, UseOf({{.key = 1, .pid = 10, .compute = seconds(5)}}));
  EXPECT_TRUE(sampler.samples().empty());
  EXPECT_FALSE(sampler.Due(kStart + milliseconds(100)));
  ASSERT_TRUE(sampler.Due(kStart + milliseconds(200)));
  // Two contexts of one process, and a process that began in the period.
  sampler.Take(kStart + milliseconds(200), UseOf({{.key = 1, .pid = 10, .compute = seconds(5) + milliseconds(20)},
                                                  {.key = 2, .pid = 10, .compute = milliseconds(31)},
                                                  {.key = 3, .pid = 11, .compute = milliseconds(100)}}));
  ASSERT_EQ(sampler.samples().size(), 2U);
  EXPECT_EQ(sampler.samples()[0].pid, 10);
  EXPECT_EQ(sampler.samples()[0].percent, 26U);  // 25.5, rounded
  EXPECT_EQ(sampler.samples()[1].percent, 50U);
  EXPECT_EQ(sampler.percent(), 76U);
}

TEST(UtilizationSampler, DoesNotListAProcessThatUsedLessThanHalfOfAPercent) {
  UtilizationSampler sampler;
  sampler.Take(kStart, UseOf({{.key = 1, .pid = 10, .compute = {}}}));
  sampler.Take(kStart + seconds(1), UseOf({{.key = 1, .pid = 10, .compute = microseconds(4'900)}}));
  EXPECT_TRUE(sampler.samples().empty());
}

}  // namespace
}  // namespace weir::emulator
