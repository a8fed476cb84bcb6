// SPDX-License-Identifier: Apache-2.0
#include "remote/move_timer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace weir::remote {
namespace {

constexpr Instant kStart = InstantFromNs(1'000'000'000);

TEST(MoveTimer, RetriesWithGrowingPauses) {
  MoveTimer timer;
  EXPECT_FALSE(timer.TryAt(kStart, false));
  std::vector<std::int64_t> tries_s;
  for (std::int64_t s = 0; s < 3600; ++s) {
    if (!timer.TryAt(kStart + seconds(s), true)) continue;
    tries_s.push_back(s);
    timer.Ended(kStart + seconds(s));
  }
  EXPECT_EQ(tries_s, (std::vector<std::int64_t>{0, 10, 30, 70, 150, 310, 610, 910, 1210, 1510, 1810, 2110, 2410, 2710,
                                                3010, 3310}));
}

TEST(MoveTimer, APauseIsOverAfterAnHourWithoutATry) {
  MoveTimer timer;
  Instant now = kStart;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(timer.TryAt(now, true));
    timer.Ended(now);
    now = timer.again_at();
  }
  ASSERT_TRUE(timer.TryAt(now, true));
  timer.Ended(now);
  EXPECT_EQ(timer.again_at() - now, MoveTimer::kPauseMax);
  now += MoveTimer::kForgetsAfter;
  ASSERT_TRUE(timer.TryAt(now, true));
  timer.Ended(now);
  EXPECT_EQ(timer.again_at() - now, MoveTimer::kFirstPause);
}

/// Drain requests at any times, and tries of any length and outcome.
RC_GTEST_PROP(MoveTimer, NeverTwoAtOnceNorMoreThanSixteenAnHour, ()) {
  MoveTimer timer;
  Instant now = kStart, ends{};
  std::vector<Instant> tries;
  for (int step = 0; step < 120; ++step) {
    const int haste = *rc::gen::weightedElement<int>({{24, 2}, {6, 1}, {1, 0}});
    if (haste == 2)  // as early as allowed
      now = std::max({now, ends, tries.empty() ? now : timer.again_at()});
    else
      now += haste == 1 ? milliseconds(*rc::gen::inRange(0, 60'000)) : seconds(*rc::gen::inRange(0, 8'000));
    if (timer.trying()) {
      RC_ASSERT(!timer.TryAt(now, true));
      if (now >= ends) timer.Ended(now);
      continue;
    }
    const bool asked = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
    const bool pause_over = tries.empty() || now >= timer.again_at();
    const bool tried = timer.TryAt(now, asked);
    RC_ASSERT(tried == (asked && pause_over));
    if (!tried) continue;
    tries.push_back(now);
    ends = now + milliseconds(*rc::gen::weightedElement<int>({{9, 0}, {1, 30'000}}));
    if (ends == now) timer.Ended(now);
  }
  for (std::size_t i = 16; i < tries.size(); ++i) RC_ASSERT(tries[i] - tries[i - 16] >= seconds(3600));
}

}  // namespace
}  // namespace weir::remote
