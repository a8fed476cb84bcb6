// SPDX-License-Identifier: Apache-2.0
#include "daemon/start_backoff.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

TEST(StartBackoff, TheFirstFailuresAreFreeThenItWaitsLongerUpToABound) {
  StartBackoff backoff;
  Instant now = InstantFromNs(1'000'000'000);
  EXPECT_EQ(backoff.Wait(now), Duration{0});
  for (const int wait_s : {0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60}) {
    backoff.Failed(now);
    EXPECT_EQ(backoff.Wait(now), seconds(wait_s)) << backoff.failures();
    now += seconds(wait_s);
    EXPECT_EQ(backoff.Wait(now), Duration{0});
  }
}

TEST(StartBackoff, StartsAfreshAfterASuccessAndAfterALongTime) {
  StartBackoff backoff;
  Instant now = InstantFromNs(1'000'000'000);
  for (int i = 0; i < 5; ++i) backoff.Failed(now);
  EXPECT_EQ(backoff.Wait(now), seconds(2));
  backoff.Worked();
  EXPECT_EQ(backoff.Wait(now), Duration{0});
  for (int i = 0; i < 5; ++i) backoff.Failed(now);
  now += seconds(303);
  backoff.Failed(now);
  EXPECT_EQ(backoff.failures(), 1);
}

TEST(StartBackoff, CountsWithoutEnd) {
  StartBackoff backoff;
  const Instant now = InstantFromNs(1);
  for (int i = 0; i < 100'000; ++i) backoff.Failed(now);
  EXPECT_EQ(backoff.Wait(now), StartBackoff::kMost);
}

}  // namespace
}  // namespace weir::daemon
