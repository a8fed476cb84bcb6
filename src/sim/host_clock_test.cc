// SPDX-License-Identifier: Apache-2.0
#include "sim/host_clock.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::sim {
namespace {

TEST(HostClock, RunsByItsDriftFromItsOffset) {
  const HostClock clock(seconds(5), 100);
  EXPECT_EQ(clock.Read(InstantFromNs(0)), InstantFromNs(5'000'000'000));
  EXPECT_EQ(clock.Read(InstantFromNs(10'000'000'000)), InstantFromNs(15'001'000'000));
  EXPECT_EQ(HostClock({}, -100).Takes(seconds(1)), nanoseconds(1'000'100'011));
}

RC_GTEST_PROP(HostClockLaw, NeverRunsBackwardsAndATimerIsNotShort, ()) {
  const HostClock clock(Duration{*rc::gen::inRange<std::int64_t>(-1'000'000, 1'000'000)},
                        *rc::gen::inRange<std::int64_t>(-500, 500));
  const auto from = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000'000);
  const Duration timer{*rc::gen::inRange<std::int64_t>(0, 10'000'000'000)};
  const Instant begin = InstantFromNs(from);
  const Duration shown = clock.Read(begin + clock.Takes(timer)) - clock.Read(begin);
  RC_ASSERT(shown >= timer - nanoseconds(2));
  RC_ASSERT(shown <= timer + nanoseconds(2));
}

}  // namespace
}  // namespace weir::sim
