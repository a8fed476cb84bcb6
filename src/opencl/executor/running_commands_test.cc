// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/running_commands.h"

#include <gtest/gtest.h>

namespace weir::opencl {
namespace {

TEST(RunningCommands, WaitersComeWithTheLastOfTheirCommandsWhateverEndsFirst) {
  RunningCommands commands;
  std::vector<int> came;
  commands.When(commands.last(), [&] { came.push_back(0); });
  EXPECT_EQ(came, std::vector<int>{0}) << "no command has begun";
  const std::uint64_t first = commands.Begin({}), second = commands.Begin({});
  commands.When(first, [&] { came.push_back(1); });
  commands.When(commands.last(), [&] { came.push_back(2); });
  const std::uint64_t third = commands.Begin({});
  commands.End(second);
  EXPECT_EQ(came, std::vector<int>{0});
  commands.End(first);
  EXPECT_EQ(came.size(), 3U) << "the third command does not matter";
  commands.When(second, [&] { came.push_back(3); });
  EXPECT_EQ(came.back(), 3);
  commands.When(third, [&] { came.push_back(4); });
  EXPECT_EQ(came.back(), 3);
  commands.End(third);
  EXPECT_EQ(came.back(), 4);
}

// The driver calls back from within calls of the session.
TEST(RunningCommands, AWaiterMayBeginACommand) {
  RunningCommands commands;
  const std::uint64_t first = commands.Begin({});
  std::uint64_t second = 0;
  commands.When(first, [&] { second = commands.Begin({}); });
  commands.End(first);
  EXPECT_GT(second, first);
  commands.End(second);
}

}  // namespace
}  // namespace weir::opencl
