// SPDX-License-Identifier: Apache-2.0
#include "drivers/command_output.h"

#include <gtest/gtest.h>

#include "tests/harness/code_of.h"

namespace weir::drivers {
namespace {

using testing::CodeOf;

TEST(CommandOutput, ReturnsOutputAndExitStatus) {
  const auto said = RunCommand({"sh", "-c", "printf 'one\\ntwo'; exit 3"}, seconds(10));
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(said->text, "one\ntwo");
  EXPECT_EQ(said->exit_code, 3);
  EXPECT_EQ(RunCommand({"sh", "-c", "kill -9 $$"}, seconds(10))->exit_code, 128 + 9);
  EXPECT_EQ(RunCommand({"cat"}, seconds(10))->text, "") << "nothing comes in";
}

TEST(CommandOutput, FailsForSlowVerboseOrMissingPrograms) {
  EXPECT_EQ(CodeOf(RunCommand({"sh", "-c", "sleep 100 & wait"}, milliseconds(50))), Errc::kTimeout);
  EXPECT_EQ(CodeOf(RunCommand({"sh", "-c", "exec >&- <&-; exec sleep 100"}, milliseconds(50))), Errc::kTimeout);
  EXPECT_EQ(CodeOf(RunCommand({"sh", "-c", "yes"}, seconds(10), 1000)), Errc::kResourceExhausted);
  EXPECT_EQ(CodeOf(RunCommand({"no-such-command-of-weir"}, seconds(10))), Errc::kNotFound);
  EXPECT_FALSE(RunCommand({"/no/such/command"}, seconds(10)));
}

}  // namespace
}  // namespace weir::drivers
