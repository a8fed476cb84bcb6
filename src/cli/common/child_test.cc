// SPDX-License-Identifier: Apache-2.0
#include "cli/common/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weir::cli {
namespace {

class ChildTest : public ::testing::Test {
 protected:
  ChildTest() {
    std::string name = ::testing::TempDir() + "/weir-child-XXXXXX";
    dir_ = mkdtemp(name.data());
    log_ = dir_ / "log";
  }
  ~ChildTest() override { std::filesystem::remove_all(dir_); }
  static void Await(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) poll(nullptr, 0, 10);
    EXPECT_TRUE(condition());
  }
  std::filesystem::path dir_, log_;
};

TEST_F(ChildTest, ReportsExitStatusAndOutput) {
  auto child = Child::Start({{"sh", "-c", "echo $COLOUR; exit 3"}, {{"COLOUR", "blue"}}, log_, -1});
  ASSERT_TRUE(child) << child.error().message;
  Await([&] { return child->Ended().has_value(); });
  EXPECT_EQ(*child->Ended(), "exit code 3");
  EXPECT_EQ(LogTail(log_), "blue");
}

TEST_F(ChildTest, ForwardsOutputAndExitCode) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  auto child = Child::Start({.argv = {"sh", "-c", "echo to the pipe; kill -9 $$"}, .output_fd = ends[1]});
  close(ends[1]);
  ASSERT_TRUE(child) << child.error().message;
  char bytes[64];
  const ssize_t count = read(ends[0], bytes, sizeof bytes);
  close(ends[0]);
  EXPECT_EQ(std::string(bytes, count > 0 ? static_cast<std::size_t>(count) : 0), "to the pipe\n");
  Await([&] { return child->Ended().has_value(); });
  EXPECT_EQ(child->ExitCode(), 128 + SIGKILL);
}

TEST_F(ChildTest, SaysWhenTheProgramIsMissing) {
  const auto child = Child::Start({{"weir-no-such-program"}, {}, log_, -1});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, Errc::kNotFound);
}

TEST_F(ChildTest, EndsAStubbornChildAndItsChildren) {
  pid_t pid = -1, grandchild = -1;
  {
    auto child =
        Child::Start({{"sh", "-c", "trap '' TERM; sleep 60 & echo $!; while :; do sleep 60; done"}, {}, log_, -1});
    ASSERT_TRUE(child) << child.error().message;
    pid = child->pid();
    Await([&] { return bool(std::ifstream(log_) >> grandchild); });
    EXPECT_FALSE(child->Ended());
  }
  EXPECT_EQ(kill(pid, 0), -1);
  Await([&] { return kill(-pid, 0) == -1; });
}

TEST_F(ChildTest, MoveAssignmentEndsTheReplacedChild) {
  auto first = Child::Start({{"sleep", "60"}, {}, log_, -1});
  auto second = Child::Start({{"sleep", "60"}, {}, log_, -1});
  ASSERT_TRUE(first && second);
  const pid_t gone = first->pid(), kept = second->pid();
  *first = *std::move(second);
  EXPECT_EQ(kill(gone, 0), -1);
  EXPECT_EQ(first->pid(), kept);
  EXPECT_FALSE(first->Ended());
}

}  // namespace
}  // namespace weir::cli
