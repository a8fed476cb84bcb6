// SPDX-License-Identifier: Apache-2.0
#include "proto/leave_list.h"

#include <gtest/gtest.h>

namespace weir::proto {
namespace {

TEST(LeaveList, ComesBackAsItWas) {
  const std::vector<LeaveAsk> asks{{"game", "several are overloaded"}, {"job", "x"}};
  EXPECT_EQ(LeaveListText(asks), "leave\ngame several are overloaded\njob x\n");
  EXPECT_EQ(LeaveListFrom(LeaveListText(asks)), asks);
  EXPECT_EQ(LeaveListFrom(LeaveListText({})), std::vector<LeaveAsk>{}) << "nobody is asked, which has to be said";
  const std::vector<AskedHere> here{{"game", 3, 2}, {"job", 0, 0}};
  EXPECT_EQ(AskedHereText(here), "here\ngame 3 2\njob 0 0\n");
  EXPECT_EQ(AskedHereFrom(AskedHereText(here)), here);
}

TEST(LeaveList, InvalidListsAreRefused) {
  for (const char* text : {"", "here\n", "leave\ngame\n", "leave\n why\n", "leave\ngame \n", "leav"})
    EXPECT_FALSE(LeaveListFrom(text)) << text;
  EXPECT_FALSE(LeaveListFrom("leave\ngame " + std::string(kWhyBytesMax + 1, 'x')));
  for (const char* text : {"", "leave\n", "here\ngame\n", "here\ngame 1\n", "here\ngame 1 2\n", "here\ngame 1 -1\n",
                           "here\ngame 1 1 1\n", "here\ngame 99999999999 1\n"})
    EXPECT_FALSE(AskedHereFrom(text)) << text;
  EXPECT_FALSE(AskedHereFrom("here\n" + std::string(kLeaveBytesMax, 'x')));
}

TEST(LeaveList, FitsAPacketHoweverManyThereAre) {
  const std::vector<LeaveAsk> many(100, {"game", std::string(1000, 'x')});
  const std::string text = LeaveListText(many);
  EXPECT_LE(text.size(), kLeaveBytesMax);
  EXPECT_EQ(LeaveListFrom(text).value().size(), (kLeaveBytesMax - 6) / (4 + 1 + kWhyBytesMax + 1));
}

}  // namespace
}  // namespace weir::proto
