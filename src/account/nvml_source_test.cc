// SPDX-License-Identifier: Apache-2.0
#include "account/nvml_source.h"

#include <gtest/gtest.h>

namespace weir::account {
namespace {

Duration UsedBy(const UtilizationSum& sum, std::int64_t pid) {
  for (const ClientUse& client : sum.Clients())
    if (client.pid == pid) return client.used;
  return {};
}

TEST(UtilizationSum, AddsUpTheTimeOfEachPeriod) {
  UtilizationSum sum;
  sum.Take(std::vector<nvml::ProcessSample>{{.pid = 7, .time_us = 1'000'000, .percent = 90}});
  EXPECT_EQ(UsedBy(sum, 7), Duration{});  // the start of the first period is unknown
  sum.Take(std::vector<nvml::ProcessSample>{{7, 1'200'000, 50}, {8, 1'200'000, 25}});
  sum.Take(std::vector<nvml::ProcessSample>{{7, 1'400'000, 10}});
  EXPECT_EQ(UsedBy(sum, 7), milliseconds(120));
  EXPECT_EQ(UsedBy(sum, 8), milliseconds(50));
}

TEST(UtilizationSum, TakesASampleOnce) {
  UtilizationSum sum;
  const std::vector<nvml::ProcessSample> first{{7, 1'000'000, 90}}, second{{7, 1'500'000, 100}};
  sum.Take(first);
  sum.Take(second);
  sum.Take(second);
  sum.Take(first);
  EXPECT_EQ(UsedBy(sum, 7), milliseconds(500));
  EXPECT_EQ(sum.latest_us(), 1'500'000U);
}

TEST(UtilizationSum, ChargesOnePeriodAfterAPauseInWhichNothingRan) {
  UtilizationSum sum;
  sum.Take(std::vector<nvml::ProcessSample>{{7, 1'000'000, 90}});
  sum.Take(std::vector<nvml::ProcessSample>{{7, 61'000'000, 100}});
  EXPECT_EQ(UsedBy(sum, 7), UtilizationSum::kPeriodMax);
}

TEST(UtilizationSum, ClampsToThePeriod) {
  UtilizationSum sum;
  sum.Take(std::vector<nvml::ProcessSample>{{7, 1'000'000, 1}});
  sum.Take(std::vector<nvml::ProcessSample>{{7, 1'100'000, 4'000'000'000}});
  EXPECT_EQ(UsedBy(sum, 7), milliseconds(100));
}

TEST(UtilizationSum, ForgetsAProcessThatHasHadNoSampleForAMinute) {
  UtilizationSum sum;
  sum.Take(std::vector<nvml::ProcessSample>{{7, 1'000'000, 90}});
  sum.Take(std::vector<nvml::ProcessSample>{{8, 60'000'000, 90}});
  EXPECT_EQ(sum.Clients().size(), 2U);
  sum.Take(std::vector<nvml::ProcessSample>{{8, 61'000'001, 90}});
  ASSERT_EQ(sum.Clients().size(), 1U);
  EXPECT_EQ(sum.Clients()[0].pid, 8);
}

}  // namespace
}  // namespace weir::account
