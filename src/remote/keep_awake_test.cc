// SPDX-License-Identifier: Apache-2.0
#include "remote/keep_awake.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "platform/clock.h"
#include "platform/process.h"
#include "tests/harness/wait_until.h"

namespace weir::remote {
namespace {

/// The costs and gains of a window for a series of pauses.
struct Awoken {
  Duration in_vain{}, length{};
  std::size_t caught = 0;
};
Awoken StayThrough(const std::vector<std::int64_t>& pauses_us) {
  AwakeWindow window;
  Awoken awoken;
  for (const std::int64_t us : pauses_us) {
    const Duration pause = microseconds(us);
    if (pause <= window.Length())
      ++awoken.caught;
    else
      awoken.in_vain += window.Length();
    window.Came(pause);
  }
  awoken.length = window.Length();
  return awoken;
}

TEST(AwakeWindow, GrowsToShortIntervalsAndNotFarBeyond) {
  EXPECT_EQ(StayThrough(std::vector<std::int64_t>(100, 35)).length, microseconds(40));
  EXPECT_EQ(StayThrough(std::vector<std::int64_t>(100, 150)).caught, 95U) << "not within 0, 10, 20, 40, 80";
  EXPECT_EQ(StayThrough(std::vector<std::int64_t>(100, 499)).length, AwakeWindow::kLongest);
}

TEST(AwakeWindow, RareMessagesKeepNoProcessorAwake) {
  const Awoken awoken = StayThrough(std::vector<std::int64_t>(1000, 500));
  EXPECT_EQ(awoken.in_vain, Duration::zero());
  EXPECT_EQ(awoken.length, Duration::zero());
}

RC_GTEST_PROP(AwakeWindow, LongPausesCostNoMoreThanEarlierShortOnesJustify, ()) {
  const auto pauses = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 1000));
  const Awoken awoken = StayThrough(pauses);
  std::int64_t shorts = 0, short_us = 0;
  for (const std::int64_t us : pauses) {
    if (microseconds(us) >= AwakeWindow::kLongest) continue;
    ++shorts;
    short_us += us;
  }
  RC_ASSERT(awoken.in_vain <= shorts * AwakeWindow::kFirst + microseconds(2 * short_us));
  RC_ASSERT(awoken.length <= AwakeWindow::kLongest);
}

TEST(KeepAwake, SpinsOnlyWhileMessagesAreExpected) {
  KeepAwake awake(platform::UsableCpus());
  Passing seldom(&awake);
  seldom.Now();
  EXPECT_EQ(awake.turns(), 0U) << "one alone says nothing of the next";
  awake.Until(platform::NowNs() + 1'000'000);
  awake.Until(platform::NowNs() + 500'000);
  // A SCHED_IDLE thread starts only when its processor is free, which may be after the time has passed.
  EXPECT_LE(awake.turns(), platform::UsableCpus().size());
}

TEST(KeepAwake, EndsWhileSpinningAndWhileSleeping) {
  for (const std::int64_t ns : {0LL, 3'600'000'000'000LL}) {
    KeepAwake awake({platform::UsableCpus().front()});
    if (ns == 0) continue;
    awake.Until(platform::NowNs() + ns);
    EXPECT_TRUE(weir::testing::WaitUntil([&] { return awake.turns() > 0; }));
  }
}

TEST(KeepAwake, WithoutProcessorsItIsNotCreated) {
  KeepAwake awake(std::vector<int>{});
  awake.Until(platform::NowNs() + 1'000'000'000);
  EXPECT_EQ(awake.turns(), 0U);
}

}  // namespace
}  // namespace weir::remote
