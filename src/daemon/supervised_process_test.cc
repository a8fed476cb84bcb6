// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervised_process.h"

#include <gtest/gtest.h>

#include "tests/harness/wait_until.h"

namespace weir::daemon {
namespace {

TEST(SupervisedProcess, SaysWhyItDoesNotRun) {
  boost::asio::io_context loop{1};
  const auto kept = SupervisedProcess::Start(loop, "portal", {"/bin/sh", "-c", "exit 4"});
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_EQ((*kept)->name(), "portal");
  EXPECT_EQ((*kept)->problem(), "");
  EXPECT_TRUE(weir::testing::WaitUntil([&] {
    loop.restart();
    loop.poll();
    return !(*kept)->problem().empty();
  }));
  EXPECT_EQ((*kept)->problem(), "it ended with the error 'already-exists'");
}

TEST(SupervisedProcess, AProgramThatIsNotInstalledIsAnError) {
  boost::asio::io_context loop{1};
  EXPECT_EQ(SupervisedProcess::Start(loop, "portal", {""}).error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace weir::daemon
