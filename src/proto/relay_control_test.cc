// SPDX-License-Identifier: Apache-2.0
#include "proto/relay_control.h"

#include <gtest/gtest.h>

namespace weir::proto {
namespace {

TEST(RelayControl, ARequestIsReadAsItWasWritten) {
  for (const MoveRequest& asked : {MoveRequest{.node = "gpu2:7700", .token = "/home/a b/job.token"},
                                   MoveRequest{.node = "[::1]:7700", .vgpu = "game"}}) {
    const auto read = RequestFrom(RequestText(asked));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->node, asked.node);
    EXPECT_EQ(read->token, asked.token);
    EXPECT_EQ(read->vgpu, asked.vgpu);
  }
}

TEST(RelayControl, WhatNamesNoNodeOrNoRightIsNone) {
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

}  // namespace
}  // namespace weir::proto
