// SPDX-License-Identifier: Apache-2.0
#include "shim/common/charged_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace weir::shim {
namespace {

constexpr double kWindowMs = 1e6;

/// Charges all of a window, in ms.
double ChargeAll(ChargedTime& charged, double begin_ms, double end_ms) {
  return static_cast<double>(
             charged.Charge({begin_ms * kWindowMs, end_ms * kWindowMs}, (end_ms - begin_ms) * kWindowMs)) /
         kWindowMs;
}

TEST(ChargedTime, EachMomentIsChargedOnce) {
  ChargedTime charged;
  EXPECT_EQ(ChargeAll(charged, 0, 10), 10);
  EXPECT_EQ(ChargeAll(charged, 5, 15), 5);
  EXPECT_EQ(ChargeAll(charged, 5, 15), 0);
  EXPECT_EQ(ChargeAll(charged, 2, 4), 0);
  EXPECT_EQ(ChargeAll(charged, 15, 16), 1);
}

TEST(ChargedTime, ShortWorkThatIsKnownEarlierLeavesTheTimeOfLongWorkBesideIt) {
  ChargedTime charged;
  for (int at = 0; at < 100; ++at) EXPECT_EQ(ChargeAll(charged, at, at + 0.25), 0.25);
  EXPECT_EQ(ChargeAll(charged, 0, 100), 75);
  EXPECT_EQ(ChargeAll(charged, 0, 100), 0);
}

TEST(ChargedTime, WhatIsForgottenIsNotChargedAgain) {
  ChargedTime charged;
  double sum_ms = 0;
  for (int at = 0; at < 5000; ++at) sum_ms += ChargeAll(charged, at, at + 0.25);
  EXPECT_EQ(sum_ms, 1250);
  const double rest_ms = ChargeAll(charged, 0, 5000);
  EXPECT_GE(rest_ms, 0.75 * 500);
  EXPECT_LE(rest_ms, 0.75 * 5000);
  EXPECT_EQ(ChargeAll(charged, 0, 5000), 0);
  EXPECT_EQ(ChargeAll(charged, 1, 2), 0) << "it is too old to be known";
  charged.Forget();
  EXPECT_EQ(ChargeAll(charged, 1, 2), 1);
}

TEST(ChargedTime, IsThatOfAListOfMoments) {
  std::mt19937 random(1);
  const auto any = [&random](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  for (int round = 0; round < 200; ++round) {
    ChargedTime charged;
    std::vector<bool> moments(100, false);
    for (int i = 0; i < 60; ++i) {
      const int begin = any(99), end = std::min(100, begin + any(30)), work = any(35) - 3;
      int expected = 0;
      for (int at = end; at-- > begin && expected < work;) {
        expected += moments[static_cast<std::size_t>(at)] ? 0 : 1;
        moments[static_cast<std::size_t>(at)] = true;
      }
      EXPECT_EQ(charged.Charge({static_cast<double>(begin), static_cast<double>(end)}, work), expected);
    }
  }
}

}  // namespace
}  // namespace weir::shim
