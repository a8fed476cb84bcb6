// SPDX-License-Identifier: Apache-2.0
#include "proto/relay_control.h"

#include <gtest/gtest.h>

namespace weir::proto {
namespace {

TEST(RelayControl, ARequestIsReadAsItWasWritten) {
  for (const MoveRequest& asked : {MoveRequest{.node = "gpu2:7700", .token = "/home/a b/job.token"},
                                   MoveRequest{.node = "[::1]:7700", .vgpu = "game"},
                                   MoveRequest{.node = "gpu2:7700", .vgpu = "game", .if_asked = true}}) {
    const auto read = RequestFrom(RequestText(asked));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->node, asked.node);
    EXPECT_EQ(read->token, asked.token);
    EXPECT_EQ(read->vgpu, asked.vgpu);
    EXPECT_EQ(read->if_asked, asked.if_asked);
  }
}

TEST(RelayControl, ARequestWithoutNodeOrTokenIsRefused) {
  for (const char* text :
       {"", "move", "move\n", "stay\nnode a:1\nvgpu b\n", "node a:1\nmove\nvgpu b\n", "move\nvgpu b\n",
        "move\nnode a:1\n", "move\nnode a:1\ntoken t\nvgpu b\n", "move\nnode\nvgpu b\n"})
    EXPECT_FALSE(RequestFrom(text)) << text;
  EXPECT_TRUE(RequestFrom("move\nnode a:1\nvgpu b\ncolour red\n")) << "a later version may say more";
}

TEST(RelayControl, AnAnswerKeepsItsCodeAndWords) {
  const auto moved = AnswerFrom(AnswerText(std::string("3 objects\n1 buffer")));
  ASSERT_TRUE(moved);
  EXPECT_EQ(*moved, "3 objects\n1 buffer");
  const auto refused = AnswerFrom(AnswerText(Fail(Errc::kTimeout, "2 commands have not ended")));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kTimeout);
  EXPECT_EQ(refused.error().message, "2 commands have not ended");
  for (const char* text : {"", "okay", "error", "error nothing\nx"}) {
    const auto none = AnswerFrom(text);
    ASSERT_FALSE(none) << text;
    EXPECT_EQ(none.error().code, Errc::kProtocol) << text;
  }
}

TEST(RelayControl, FiguresFollowTheTextAndSumAllMoves) {
  const std::vector<MoveFigures> moves{
      {.objects = 5,
       .memories = 2,
       .bytes_before = 3 << 20,
       .bytes_in_pause = 70,
       .bytes_unchanged = 9,
       .pause_us = 1500},
      {.objects = 1, .memories = 1, .bytes_before = 1, .bytes_in_pause = 2, .bytes_unchanged = 3, .pause_us = 200}};
  auto said = AnswerFrom(AnswerText(MoveText(moves)));
  ASSERT_TRUE(said);
  const auto figures = TakeFigures(*said);
  EXPECT_EQ(*said,
            "5 objects recreated; contents of 2: 3.0 MiB sent before the pause, 0.0 MiB in it, 0.0 MiB not sent again; "
            "paused for 1.5 ms\n"
            "1 objects recreated; contents of 1: 0.0 MiB sent before the pause, 0.0 MiB in it, 0.0 MiB not sent again; "
            "paused for 0.2 ms");
  const std::vector<std::pair<std::string, std::uint64_t>> expected{
      {"objects", 6},         {"memories", 3},         {"bytes_before", (3 << 20) + 1},
      {"bytes_in_pause", 72}, {"bytes_unchanged", 12}, {"pause_us", 1500}};
  EXPECT_EQ(figures, expected);
}

TEST(RelayControl, TheAnswerAboutManyConnectionsFitsIntoAPacket) {
  const std::vector<MoveFigures> moves(256, {.objects = 1'000'000, .memories = 1, .pause_us = ~0ULL});
  const std::string answer = AnswerText(MoveText(moves));
  EXPECT_LE(answer.size(), kControlBytesMax);
  auto said = AnswerFrom(answer);
  ASSERT_TRUE(said);
  const auto figures = TakeFigures(*said);
  ASSERT_EQ(figures.size(), 6U);
  EXPECT_EQ(figures[0].second, 256'000'000U) << "the sums are over all of them";
  EXPECT_NE(said->find(" more connections"), std::string::npos) << *said;
  EXPECT_EQ(AnswerText(Fail(Errc::kIo, std::string(2 * kControlBytesMax, 'x'))).size(), kControlBytesMax);
}

TEST(RelayControl, WordsWithoutFiguresStayAsTheyAre) {
  for (const char* words : {"", "moved", "one\ntwo", "figures a=1", "\nfigure a=1"}) {
    std::string said = words;
    EXPECT_TRUE(TakeFigures(said).empty()) << words;
    EXPECT_EQ(said, words);
  }
  std::string odd = "x\nfigures a b=c d=7e =8";
  const std::vector<std::pair<std::string, std::uint64_t>> expected{{"d", 7}, {"", 8}};
  EXPECT_EQ(TakeFigures(odd), expected);
  EXPECT_EQ(odd, "x");
}

}  // namespace
}  // namespace weir::proto
