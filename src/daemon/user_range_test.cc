// SPDX-License-Identifier: Apache-2.0
#include "daemon/user_range.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "platform/spawn.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

class UserRangeOf : public ::testing::Test {
 protected:
  std::string Run(const std::string& name) {
    std::filesystem::create_directory(folder_ / name);
    return folder_ / name;
  }
  Result<UserRange> Take(const std::string& run_dir, const std::set<unsigned>& in_use = {}) {
    return UserRange::Take(run_dir, folder_ / "users", in_use);
  }

  testing::TempFolder folder_;
};

TEST_F(UserRangeOf, EachRunFolderIsAnother) {
  const UserRange a = Take(Run("a")).value(), b = Take(Run("b")).value();
  EXPECT_GE(a.first(), UserRange::kFirst);
  EXPECT_GE(b.first(), a.first() + UserRange::kCount);
}

TEST_F(UserRangeOf, ItsFolderIsClosedToOthersWhoCouldHoldItsLocks) {
  std::filesystem::create_directory(folder_ / "users");
  std::filesystem::permissions(folder_ / "users", std::filesystem::perms(0755));
  const UserRange held = Take(Run("a")).value();
  EXPECT_EQ(std::filesystem::status(folder_ / "users").permissions(), std::filesystem::perms(0700));
}

TEST_F(UserRangeOf, StaysTheSameAfterARestart) {
  const std::string run = Run("a");
  uid_t first = 0;
  {
    const UserRange before = Take(run).value();
    first = before.first();
  }
  const UserRange other = Take(Run("b")).value();
  EXPECT_NE(other.first(), first) << "the daemon of this range has ended, but its run folder is there";
  EXPECT_EQ(Take(run + "/.").value().first(), first) << "the same folder";
}

TEST_F(UserRangeOf, AnotherDaemonOfTheSameRunFolderIsRefused) {
  const std::string run = Run("a");
  const UserRange held = Take(run).value();
  EXPECT_EQ(testing::CodeOf(Take(run)), Errc::kBusy);
}

TEST_F(UserRangeOf, IsFreeWhenItsRunFolderIsGone) {
  const std::string run = Run("a");
  const uid_t first = Take(run).value().first();
  std::filesystem::remove(run);
  EXPECT_EQ(Take(Run("b")).value().first(), first);
}

TEST_F(UserRangeOf, IsNotFreeWhileAProcessHasAUserOfIt) {
  const uid_t first = Take(Run("a")).value().first();
  std::filesystem::remove(folder_ / "a");
  EXPECT_NE(Take(Run("b"), {0}).value().first(), first);
  EXPECT_EQ(Take(folder_ / "b").value().first(), first + UserRange::kCount)
      << "b keeps its range when the first is free";
}

TEST_F(UserRangeOf, ProcessesOfTheMachineAreFound) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start processes of another user";
  constexpr unsigned kLast = UserRange::kRangesMax - 1;
  const uid_t uid = UserRange::kFirst + kLast * UserRange::kCount;
  const pid_t pid =
      platform::Spawn({.argv = {"/bin/sleep", "600"}, .as = platform::RunAs{.uid = uid, .gid = uid}}).value();
  EXPECT_TRUE(UserRange::InUse().contains(kLast));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST_F(UserRangeOf, AFileThatIsALinkIsRefused) {
  std::filesystem::create_directory(folder_ / "users");
  std::ofstream(folder_ / "target") << "";
  std::filesystem::create_symlink(folder_ / "target", folder_ / "users/0");
  EXPECT_FALSE(Take(Run("a")));
  EXPECT_EQ(std::filesystem::file_size(folder_ / "target"), 0U);
}

}  // namespace
}  // namespace weir::daemon
