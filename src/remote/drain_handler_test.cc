// SPDX-License-Identifier: Apache-2.0
// Uses commands without effect. tests/e2e/leave_e2e.py migrates a real program.
#include "remote/drain_handler.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "platform/clock.h"
#include "tests/harness/temp_folder.h"

namespace weir::remote {
namespace {

constexpr Instant kThen = InstantFromNs(1'000'000'000'000);

class DrainHandlerTest : public ::testing::Test {
 protected:
  /// A command that records its run and then executes `end`.
  [[nodiscard]] std::vector<std::string> Command(const std::string& end) const {
    return {"/bin/sh", "-c", "echo $$ >> " + (folder_ / "runs") + "; " + end};
  }
  [[nodiscard]] std::vector<pid_t> Runs() const {
    std::vector<pid_t> pids;
    std::ifstream file(folder_ / "runs");
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
    return pids;
  }
  static void Until(const std::function<bool()>& holds) {
    for (const Instant until = platform::Now() + seconds(20); !holds() && platform::Now() < until;)
      std::this_thread::sleep_for(milliseconds(2));
    EXPECT_TRUE(holds());
  }
  static void AwaitEnd(DrainHandler& drain_handler, Instant now) {
    Until([&] {
      drain_handler.See(now, "");
      return !drain_handler.trying();
    });
  }
  testing::TempFolder folder_;
};

TEST_F(DrainHandlerTest, WithoutACommandTheRequestIsReportedOnce) {
  ::testing::internal::CaptureStderr();
  DrainHandler drain_handler({}, "job", "; there is a way");
  drain_handler.See(kThen, "");
  for (int i = 0; i < 3; ++i) drain_handler.See(kThen + seconds(i * 1000), "full");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "weir: job: its node asks it to leave: full; there is a way\n");
}

TEST_F(DrainHandlerTest, TheCommandRunsOnRequestAndAgainAfterAPause) {
  ::testing::internal::CaptureStderr();
  DrainHandler drain_handler(Command("exit 3"), "job", "");
  drain_handler.See(kThen, "");
  EXPECT_FALSE(drain_handler.trying());
  drain_handler.See(kThen, "full");
  EXPECT_TRUE(drain_handler.trying());
  AwaitEnd(drain_handler, kThen + seconds(5));
  drain_handler.See(kThen + seconds(14), "full");
  EXPECT_EQ(Runs().size(), 1U);
  drain_handler.See(kThen + seconds(15), "");
  EXPECT_FALSE(drain_handler.trying()) << "it need not any more";
  drain_handler.See(kThen + seconds(15), "full");
  AwaitEnd(drain_handler, kThen + seconds(15));
  EXPECT_EQ(Runs().size(), 2U);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("not again within 10 s\n"), std::string::npos) << said;
  EXPECT_NE(said.find("not again within 20 s\n"), std::string::npos) << said;
}

TEST_F(DrainHandlerTest, OneCommandRunsAtATimeAndReportsItsNode) {
  ::testing::internal::CaptureStderr();
  DrainHandler drain_handler(Command("while [ ! -e " + (folder_ / "go") + " ]; do sleep 0.01; done; echo moved to n2"),
                             "job", "");
  for (int i = 0; i < 5; ++i) drain_handler.See(kThen + seconds(i * 1000), "full");
  std::ofstream(folder_ / "go") << "\n";
  AwaitEnd(drain_handler, kThen + seconds(5000));
  EXPECT_EQ(Runs().size(), 1U);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("weir: job: moved to n2\n"), std::string::npos) << said;
}

TEST_F(DrainHandlerTest, ARunningCommandEndsWithTheLeaver) {
  {
    DrainHandler drain_handler(Command("exec sleep 600"), "job", "");
    drain_handler.See(kThen, "full");
    Until([&] { return Runs().size() == 1; });
  }
  EXPECT_NE(::kill(Runs()[0], 0), 0);
}

TEST_F(DrainHandlerTest, AMissingCommandIsReported) {
  ::testing::internal::CaptureStderr();
  DrainHandler drain_handler({folder_ / "nothing"}, "job", "");
  drain_handler.See(kThen, "full");
  EXPECT_FALSE(drain_handler.trying());
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("it can't be moved"), std::string::npos);
}

}  // namespace
}  // namespace weir::remote
