// SPDX-License-Identifier: Apache-2.0
#include "platform/program_output.h"

#include <gtest/gtest.h>

namespace weir::platform {
namespace {

TEST(ProgramOutput, BothOutputsAndTheStatusAreReturned) {
  const auto output = OutputOf({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(output);
  EXPECT_EQ(output->text, "out\nerr\n");
  EXPECT_EQ(output->exit_code, 7);
}

TEST(ProgramOutput, ASignalIsAStatus) {
  const auto output = OutputOf({"/bin/sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(output);
  EXPECT_EQ(output->exit_code, 137);
}

TEST(ProgramOutput, ALongProgramIsEnded) {
  const auto output = OutputOf({"/bin/sh", "-c", "sleep 100"}, milliseconds(50));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Errc::kTimeout);
}

TEST(ProgramOutput, AProgramThatPrintsTooMuchIsEnded) {
  const auto output = OutputOf({"/bin/sh", "-c", "while :; do echo yes; done"}, seconds(60), 10'000);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Errc::kResourceExhausted);
}

TEST(ProgramOutput, AMissingProgramIsAnError) { EXPECT_FALSE(OutputOf({"/nowhere/program"})); }

}  // namespace
}  // namespace weir::platform
