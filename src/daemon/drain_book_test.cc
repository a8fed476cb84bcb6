// SPDX-License-Identifier: Apache-2.0
#include "daemon/drain_book.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

using Words = std::vector<std::string>;

Words KindsOf(const std::vector<engine::Note>& notes) {
  Words kinds;
  for (const engine::Note& note : notes) kinds.push_back(note.kind + " " + note.vgpu);
  return kinds;
}

TEST(DrainBook, ReportsARequestAndItsSuccessOnce) {
  DrainBook book;
  EXPECT_TRUE(book.Ask("game", "full"));
  EXPECT_FALSE(book.Ask("game", "full")) << "portals know";
  EXPECT_EQ(book.Text(), "leave\ngame full\n");
  EXPECT_EQ(KindsOf(book.Hear(1, {{"game", 2, 0}})), Words{}) << "no request yet";
  const auto asked = book.Hear(1, {{"game", 2, 1}});
  ASSERT_EQ(KindsOf(asked), Words{"asked game"});
  EXPECT_NE(asked[0].text.find("1 of its 2 connections"), std::string::npos) << asked[0].text;
  EXPECT_EQ(KindsOf(book.Hear(1, {{"game", 2, 2}})), Words{});
  EXPECT_EQ(KindsOf(book.Hear(2, {{"game", 1, 1}})), Words{});
  EXPECT_EQ(KindsOf(book.Hear(1, {{"game", 0, 0}})), Words{}) << "the other portal has one";
  EXPECT_EQ(KindsOf(book.Hear(2, {})), Words{"left game"}) << "it is gone, and what it carried with it";
  EXPECT_EQ(KindsOf(book.Hear(1, {{"game", 1, 1}})), Words{});
  EXPECT_EQ(KindsOf(book.Hear(1, {})), Words{}) << "once";
}

TEST(DrainBook, ACancelledRequestIsNotReported) {
  DrainBook book;
  EXPECT_FALSE(book.TakeBack("game"));
  book.Ask("game", "full");
  book.Hear(1, {{"game", 1, 1}});
  EXPECT_TRUE(book.TakeBack("game"));
  EXPECT_EQ(book.Text(), "leave\n");
  EXPECT_EQ(KindsOf(book.Hear(1, {})), Words{}) << "it ended by itself";
  EXPECT_TRUE(book.Ask("game", "full")) << "and may be asked again";
  EXPECT_EQ(KindsOf(book.Hear(1, {{"game", 1, 1}})), Words{"asked game"});
}

TEST(DrainBook, APortalReportsOnlyRequestedVgpus) {
  DrainBook book;
  book.Ask("game", "full");
  EXPECT_EQ(KindsOf(book.Hear(1, {{"other", 7, 7}, {"game", 1, 1}})), Words{"asked game"});
}

}  // namespace
}  // namespace weir::daemon
