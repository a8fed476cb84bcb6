// SPDX-License-Identifier: Apache-2.0
#include "daemon/frame_log.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

FrameLog Filled(std::uint64_t count) {
  FrameLog log;
  for (std::uint64_t i = 1; i <= count; ++i) log.Add({.pid = 1, .end_ns = static_cast<std::int64_t>(i)});
  return log;
}

TEST(FrameLog, GivesWhatCameAfterInOrder) {
  const FrameLog log = Filled(10);
  const FrameLog::Slice slice = log.After(7, 100);
  ASSERT_EQ(slice.frames.size(), 3U);
  EXPECT_EQ(slice.frames.front().end_ns, 8);
  EXPECT_EQ(slice.next, 10U);
  EXPECT_EQ(slice.lost, 0U);
  EXPECT_TRUE(log.After(slice.next, 100).frames.empty());
}

TEST(FrameLog, SaysHowManyWereLostToItsBound) {
  const FrameLog log = Filled(FrameLog::kFramesMax + 100);
  const FrameLog::Slice slice = log.After(0, FrameLog::kFramesMax);
  EXPECT_EQ(slice.lost, 100U);
  EXPECT_EQ(slice.frames.front().end_ns, 101);
  EXPECT_EQ(slice.frames.size(), FrameLog::kFramesMax);
}

TEST(FrameLog, ALimitIsContinuedWhereItEnded) {
  const FrameLog log = Filled(10);
  const FrameLog::Slice first = log.After(0, 4);
  EXPECT_EQ(first.next, 4U);
  EXPECT_EQ(log.After(first.next, 100).frames.front().end_ns, 5);
}

TEST(FrameLog, ANumberFromTheFutureGivesNothing) { EXPECT_TRUE(Filled(3).After(1'000'000, 10).frames.empty()); }

}  // namespace
}  // namespace weir::daemon
