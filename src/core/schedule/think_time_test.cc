// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/think_time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::core {
namespace {

struct Program {
  ThinkTime think;
  Instant now = InstantFromNs(1'000'000'000);
  void Draw(int frames, Duration each) {
    for (int i = 0; i < frames; ++i) {
      now += each + milliseconds(2);
      think.Add(now, each);
    }
  }
};

TEST(ThinkTime, AFirstFrameAtOnceIsForgotten) {
  Program program;
  program.think.Add(program.now, Duration{0});
  program.Draw(50, milliseconds(18));
  EXPECT_GT(program.think.least(), milliseconds(9)) << "of its first eight frames";
  program.Draw(600, milliseconds(18));
  EXPECT_NEAR(MillisecondsOf(program.think.least()), 18, 0.1);
}

TEST(ThinkTime, OneFrameAtOnceInAWhileIsNoHabit) {
  Program program;
  for (int i = 0; i < 20; ++i) {
    program.Draw(50, milliseconds(18));
    program.think.Add(program.now, Duration{0});
  }
  EXPECT_GT(program.think.least(), milliseconds(15));
}

TEST(ThinkTime, TheLeastIsRememberedForSomeSeconds) {
  Program program;
  program.Draw(100, milliseconds(2));
  program.Draw(200, milliseconds(10));  // 2.4 s
  EXPECT_EQ(program.think.least(), milliseconds(2));
  EXPECT_NEAR(MillisecondsOf(program.think.mean()), 10, 0.1);
  program.Draw(900, milliseconds(10));  // 10.8 s
  EXPECT_NEAR(MillisecondsOf(program.think.least()), 10, 0.1);
}

TEST(ThinkTime, AStallCountsAsATenthOfASecond) {
  Program program;
  program.Draw(20, seconds(3));
  EXPECT_EQ(program.think.mean(), ThinkTime::kMost);
}

RC_GTEST_PROP(ThinkTimeLaw, TheLeastIsNeverAboveTheMean, ()) {
  Program program;
  for (const int ms : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 2'000))) {
    program.Draw(1, milliseconds(ms));
    RC_ASSERT(program.think.least() <= program.think.mean());
    RC_ASSERT(program.think.mean() <= ThinkTime::kMost);
  }
}

}  // namespace
}  // namespace weir::core
