// SPDX-License-Identifier: Apache-2.0
#include "daemon/event_log.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

EventLog FilledEvents(std::uint64_t count) {
  EventLog log;
  for (std::uint64_t i = 1; i <= count; ++i)
    log.Add(InstantFromNs(static_cast<std::int64_t>(i)), 0,
            {.device = "embedded", .kind = "sold", .vgpu = "a", .text = std::to_string(i)});
  return log;
}

TEST(EventLog, GivesWhatCameAfterInOrder) {
  const EventLog log = FilledEvents(10);
  const EventLog::Slice slice = log.After(7, 100);
  ASSERT_EQ(slice.events.size(), 3U);
  EXPECT_EQ(slice.events.front().number, 8U);
  EXPECT_EQ(slice.events.front().note.text, "8");
  EXPECT_EQ(slice.next, 10U);
  EXPECT_EQ(slice.lost, 0U);
  EXPECT_TRUE(log.After(slice.next, 100).events.empty());
}

TEST(EventLog, SaysHowManyWereLostToItsBound) {
  const EventLog log = FilledEvents(EventLog::kEventsMax + 100);
  const EventLog::Slice slice = log.After(0, EventLog::kEventsMax);
  EXPECT_EQ(slice.lost, 100U);
  EXPECT_EQ(slice.events.front().number, 101U);
  EXPECT_EQ(slice.events.front().note.text, "101");
  EXPECT_EQ(slice.events.size(), EventLog::kEventsMax);
  EXPECT_EQ(log.counts().at("sold"), EventLog::kEventsMax + 100);
}

TEST(EventLog, ALimitIsContinuedWhereItEnded) {
  const EventLog log = FilledEvents(10);
  const EventLog::Slice first = log.After(0, 4);
  EXPECT_EQ(first.next, 4U);
  EXPECT_EQ(log.After(first.next, 100).events.front().number, 5U);
  EXPECT_EQ(log.After(5, 0).next, 5U);
}

TEST(EventLog, ANumberFromTheFutureGivesNothingAndTheNewestOne) {
  const EventLog::Slice slice = FilledEvents(3).After(1'000'000, 10);
  EXPECT_TRUE(slice.events.empty());
  EXPECT_EQ(slice.next, 3U);
  EXPECT_EQ(EventLog().After(0, 10).next, 0U);
}

}  // namespace
}  // namespace weir::daemon
