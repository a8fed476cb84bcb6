// SPDX-License-Identifier: Apache-2.0
#include "proto/drain_list.h"

#include <gtest/gtest.h>

namespace weir::proto {
namespace {

TEST(DrainList, ComesBackAsItWas) {
  const std::vector<DrainRequest> asks{{"game", "several are overloaded"}, {"job", "x"}};
  EXPECT_EQ(DrainListText(asks), "leave\ngame several are overloaded\njob x\n");
  EXPECT_EQ(DrainListFrom(DrainListText(asks)), asks);
  EXPECT_EQ(DrainListFrom(DrainListText({})), std::vector<DrainRequest>{}) << "an empty list is sent, too";
  const std::vector<DrainState> here{{"game", 3, 2}, {"job", 0, 0}};
  EXPECT_EQ(DrainStateText(here), "here\ngame 3 2\njob 0 0\n");
  EXPECT_EQ(DrainStateFrom(DrainStateText(here)), here);
}

TEST(DrainList, InvalidListsAreRefused) {
  for (const char* text : {"", "here\n", "leave\ngame\n", "leave\n why\n", "leave\ngame \n", "leav"})
    EXPECT_FALSE(DrainListFrom(text)) << text;
  EXPECT_FALSE(DrainListFrom("leave\ngame " + std::string(kWhyBytesMax + 1, 'x')));
  for (const char* text : {"", "leave\n", "here\ngame\n", "here\ngame 1\n", "here\ngame 1 2\n", "here\ngame 1 -1\n",
                           "here\ngame 1 1 1\n", "here\ngame 99999999999 1\n"})
    EXPECT_FALSE(DrainStateFrom(text)) << text;
  EXPECT_FALSE(DrainStateFrom("here\n" + std::string(kDrainListBytesMax, 'x')));
}

TEST(DrainList, FitsAPacketHoweverManyThereAre) {
  const std::vector<DrainRequest> many(100, {"game", std::string(1000, 'x')});
  const std::string text = DrainListText(many);
  EXPECT_LE(text.size(), kDrainListBytesMax);
  EXPECT_EQ(DrainListFrom(text).value().size(), (kDrainListBytesMax - 6) / (4 + 1 + kWhyBytesMax + 1));
}

}  // namespace
}  // namespace weir::proto
