// SPDX-License-Identifier: Apache-2.0
#include "modules/run_tally.h"

#include <gtest/gtest.h>

namespace weir::modules {
namespace {

using Company = RunTally::Company;

TEST(RunTally, AloneTakesTheMedianOfTheRunsThatWereAlone) {
  RunTally tally(Company::kNone, 3);
  tally.Add(9, 0.5);  // another run was on the device for a while
  for (const double seconds : {2.0, 1.0}) tally.Add(seconds, 0);
  EXPECT_FALSE(tally.settled());
  tally.Add(1.5, 0.01);
  ASSERT_TRUE(tally.settled());
  const auto outcome = tally.Take();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->seconds, 1.5);
  EXPECT_EQ(outcome->runs, 3U);
}

TEST(RunTally, TheMedianOfAnEvenNumberLiesBetweenTheMiddleTwo) {
  RunTally tally(Company::kNone, 2);
  tally.Add(3, 0);
  tally.Add(1, 0);
  EXPECT_EQ(tally.Take()->seconds, 2);
}

TEST(RunTally, AFullyOverlappedRunOfAPairCounts) {
  RunTally tally(Company::kOne, 2);
  tally.Add(1, 0.3);  // the first run, before the other kernel started
  tally.Add(2, 0.98);
  tally.Add(2.2, 0.95);
  ASSERT_TRUE(tally.settled());
  EXPECT_NEAR(tally.Take()->seconds, 2.1, 1e-12);
  EXPECT_NEAR(tally.Take()->beside, 0.965, 1e-12);
}

TEST(RunTally, ShortRunsOfAPairAreReportedWithTheirOverlap) {
  RunTally tally(Company::kOne, 1);
  for (std::uint32_t i = 0; i < RunTally::TriesMax(1); ++i) {
    EXPECT_FALSE(tally.settled());
    tally.Add(0.001, 0.7);
  }
  ASSERT_TRUE(tally.settled());
  const auto outcome = tally.Take();
  ASSERT_TRUE(outcome);
  EXPECT_NEAR(outcome->beside, 0.7, 1e-9);
}

TEST(RunTally, FewLongRunsAreTriedWhenNoneCounts) {
  RunTally tally(Company::kOne, 1);
  for (std::uint32_t i = 0; i < RunTally::LongTriesMax(1); ++i) {
    EXPECT_FALSE(tally.settled());
    tally.Add(20, 0.8);  // beside a short kernel, which is absent while it is started again
  }
  EXPECT_TRUE(tally.settled());
  EXPECT_EQ(tally.Take()->seconds, 20);
}

TEST(RunTally, ReportsWhyThereIsNoTime) {
  RunTally crowded(Company::kNone, 1), apart(Company::kOne, 1), three(Company::kOne, 1), ended(Company::kNone, 1);
  for (std::uint32_t i = 0; i < RunTally::TriesMax(1); ++i) {
    crowded.Add(1, 1);
    apart.Add(1, 0);
    three.Add(1, 2);
    ended.AddSpoilt();
  }
  EXPECT_EQ(crowded.Take().error().code, Errc::kBusy);
  EXPECT_NE(crowded.Take().error().message.find("instead of none"), std::string::npos);
  EXPECT_EQ(three.Take().error().code, Errc::kBusy);
  EXPECT_EQ(apart.Take().error().code, Errc::kUnavailable);
  EXPECT_NE(apart.Take().error().message.find("no room for both"), std::string::npos);
  EXPECT_EQ(ended.Take().error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace weir::modules
