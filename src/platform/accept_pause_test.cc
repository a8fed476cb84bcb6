// SPDX-License-Identifier: Apache-2.0
#include "platform/accept_pause.h"

#include <gtest/gtest.h>

namespace weir::platform {
namespace {

constexpr Instant kStart = Instant{} + seconds(1000);

TEST(AcceptPause, EndsByItself) {
  AcceptPause pause;
  EXPECT_FALSE(pause.Holds(kStart));
  EXPECT_TRUE(pause.Failed(kStart));
  EXPECT_TRUE(pause.Holds(kStart + AcceptPause::kPause - nanoseconds(1)));
  EXPECT_FALSE(pause.Holds(kStart + AcceptPause::kPause));
}

TEST(AcceptPause, IsReportedOnceAMinute) {
  AcceptPause pause;
  int told = 0;
  for (Duration at{}; at < AcceptPause::kRepeatAfter; at += AcceptPause::kPause) told += pause.Failed(kStart + at);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(pause.Failed(kStart + AcceptPause::kRepeatAfter));
}

}  // namespace
}  // namespace weir::platform
