// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_users.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "platform/file_rules.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

constexpr uid_t kAlice = 54'321, kBob = 54'322;

class ExecutorUsersOf : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can start processes of another user";
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    auto range = UserRange::Take(folder_.path());  // that no daemon of this machine has
    ASSERT_TRUE(range) << range.error().message;
    range_.emplace(std::move(*range));
  }
  ExecutorUsers Make(const std::string& why_not = "") {
    return {loop_, folder_.path(), {.why_not = why_not, .first = range_->first()}};
  }
  static uid_t UidOf(ExecutorUsers& users, const std::string& vgpu, uid_t owner = kAlice, bool ephemeral = false) {
    return users.Of(vgpu, owner, ephemeral).value().as.value().uid;
  }
  std::size_t Folders() {
    const std::filesystem::directory_iterator all(folder_ / "homes");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  testing::TempFolder folder_;
  std::optional<UserRange> range_;
  boost::asio::io_context loop_;
};

TEST_F(ExecutorUsersOf, EachVgpuAreDifferentAndNoAccounts) {
  ExecutorUsers users = Make();
  const uid_t a = UidOf(users, "a"), b = UidOf(users, "b");
  EXPECT_NE(a, b) << "although both have the same owner";
  for (const uid_t uid : {a, b}) {
    EXPECT_GE(uid, range_->first());
    EXPECT_LT(uid, range_->first() + UserRange::kCount);
  }
  EXPECT_EQ(UidOf(users, "a"), a) << "each executor of a vGPU has the same user";
}

TEST_F(ExecutorUsersOf, AreNotThoseOfServices) {
  const OwnUsers own{.why_not = "", .first = range_->first()};
  ExecutorUsers users = Make();
  EXPECT_LT(UidOf(users, "a"), own.OfService(0));
  EXPECT_LT(own.OfService(OwnUsers::kForServices - 1), range_->first() + UserRange::kCount);
  EXPECT_EQ((OwnUsers{.why_not = "not root", .first = range_->first()}.OfService(0)), 0U);
}

TEST_F(ExecutorUsersOf, ServeThePortalsOfTheirVgpu) {
  ExecutorUsers users(loop_, folder_.path(),
                      {.why_not = "", .first = range_->first(), .portals = {{7}, {8, "a"}, {9, "b"}}});
  EXPECT_EQ(users.Of("a", kAlice, false).value().portals, (std::vector<uid_t>{7, 8}));
  EXPECT_EQ(users.Of("c", kAlice, false).value().portals, (std::vector<uid_t>{7}));
  EXPECT_EQ(users.Portals(), (std::vector<uid_t>{7, 8, 9}));
}

TEST_F(ExecutorUsersOf, HaveHomesThatAreClosedToOthers) {
  ExecutorUsers users = Make();
  const ExecutorUser user = users.Of("a", kAlice, false).value();
  const std::string home = folder_ / "homes/a";
  EXPECT_EQ(user.environment.front(), "HOME=" + home);
  struct stat found {};
  ASSERT_EQ(::stat(home.c_str(), &found), 0);
  EXPECT_EQ(found.st_uid, user.as->uid);
  EXPECT_EQ(found.st_mode & 07777, 0700U);
  ASSERT_EQ(::stat((folder_ / "homes").c_str(), &found), 0);
  EXPECT_EQ(found.st_uid, 0U);
  EXPECT_EQ(found.st_mode & 07777, 0711U);
}

TEST_F(ExecutorUsersOf, StayTheSameAfterARestart) {
  ExecutorUsers before = Make();
  const uid_t a = UidOf(before, "a");
  ExecutorUsers after = Make();
  EXPECT_NE(UidOf(after, "b"), a);
  EXPECT_EQ(UidOf(after, "a"), a);
}

TEST_F(ExecutorUsersOf, EphemeralVgpusOfOneAccountAreTheSame) {
  ExecutorUsers users = Make();
  EXPECT_EQ(UidOf(users, "run-1", kAlice, true), UidOf(users, "run-2", kAlice, true));
  EXPECT_NE(UidOf(users, "run-1", kAlice, true), UidOf(users, "run-1", kBob, true));
}

TEST_F(ExecutorUsersOf, AreNotUsedAgainSoon) {
  ExecutorUsers users = Make();
  const uid_t first = UidOf(users, "a");
  users.Forget("a");
  loop_.run();
  EXPECT_EQ(Folders(), 0U);
  EXPECT_NE(UidOf(users, "a", kBob), first);
}

TEST_F(ExecutorUsersOf, AreNotUsedAgainBeforeTheirFilesAreGone) {
  ExecutorUsers users = Make();
  const uid_t first = UidOf(users, "a");
  users.Forget("a");  // its files are removed once the loop runs
  ExecutorUsers later = Make();
  EXPECT_NE(UidOf(later, "b"), first);
}

TEST_F(ExecutorUsersOf, LoseTheirProcessesAndFilesWithTheVgpu) {
  ExecutorUsers users = Make();
  const ExecutorUser user = users.Of("a", kAlice, false).value(), other = users.Of("b", kAlice, false).value();
  const auto sleeps = [](const ExecutorUser& of) {
    return platform::Spawn({.argv = {"/bin/sleep", "600"}, .as = of.as, .confined = true}).value();
  };
  const pid_t mine = sleeps(user), another = sleeps(user), others = sleeps(other);
  const std::string deep = folder_ / "homes/a/.cache/pocl";
  std::filesystem::create_directories(deep);
  std::ofstream(deep + "/kernel") << "x";
  for (const auto& at : {folder_ / "homes/a/.cache", deep, deep + "/kernel"})
    ASSERT_EQ(::lchown(at.c_str(), user.as->uid, user.as->gid), 0);
  const std::string outside = folder_ / "outside";
  std::ofstream{outside} << "x";
  ASSERT_EQ(::symlink(outside.c_str(), (folder_ / "homes/a/link").c_str()), 0);

  users.Forget("a");
  for (const pid_t pid : {mine, another}) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  loop_.run();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "homes/a"));
  EXPECT_EQ(Folders(), 1U) << "that of b";
  EXPECT_TRUE(std::filesystem::exists(outside)) << "a link is not followed";
  EXPECT_EQ(::waitpid(others, nullptr, WNOHANG), 0) << "the processes of other users live";
  ::kill(others, SIGKILL);
  ::waitpid(others, nullptr, 0);
}

TEST_F(ExecutorUsersOf, WhatIsLeftOfRemovedVgpusGoesAtTheNextStart) {
  {
    ExecutorUsers users = Make();
    for (const char* name : {"stays", "gone", "going"}) UidOf(users, name);
    UidOf(users, "run", kAlice, true);
    users.Forget("going");  // this daemon ends before the folder is removed
  }
  ExecutorUsers users = Make();
  users.KeepOnly({"stays"});
  loop_.run();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "homes/stays"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / ("homes/.of-" + std::to_string(kAlice))));
  EXPECT_EQ(Folders(), 2U);
}

TEST_F(ExecutorUsersOf, AFolderOfAnotherRangeIsReplacedAndItsUsersProcessesLive) {
  constexpr uid_t kOtherRange = UserRange::kFirst + (UserRange::kRangesMax - 1) * UserRange::kCount;  // taken last
  std::filesystem::create_directories(folder_ / "homes/a/.cache");
  for (const auto& at : {folder_ / "homes/a", folder_ / "homes/a/.cache"})
    ASSERT_EQ(::chown(at.c_str(), kOtherRange, kOtherRange), 0);
  std::filesystem::permissions(folder_ / "homes/a", std::filesystem::perms(0700));
  const pid_t another =
      platform::Spawn({.argv = {"/bin/sleep", "600"}, .as = platform::RunAs{.uid = kOtherRange, .gid = kOtherRange}})
          .value();
  ExecutorUsers users = Make();
  const uid_t uid = UidOf(users, "a");
  EXPECT_GE(uid, range_->first());
  EXPECT_LT(uid, range_->first() + UserRange::kCount);
  loop_.run();
  EXPECT_EQ(Folders(), 1U);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "homes/a/.cache"));
  EXPECT_EQ(::waitpid(another, nullptr, WNOHANG), 0) << "the number belongs to another daemon now";
  ::kill(another, SIGKILL);
  ::waitpid(another, nullptr, 0);
}

TEST_F(ExecutorUsersOf, AHomeThatWasMovedAwayComesBackWithItsFilesAndProcesses) {
  ExecutorUsers users = Make();
  const ExecutorUser user = users.Of("a", kAlice, false).value();
  std::ofstream(folder_ / "homes/a/kernel") << "x";
  const pid_t pid = platform::Spawn({.argv = {"/bin/sleep", "600"}, .as = user.as, .confined = true}).value();
  const ExecutorUsers::Aside aside = *users.MoveAside("a");
  EXPECT_NE(UidOf(users, "a", kBob), user.as->uid);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "homes/a/kernel"));
  users.PutBack(aside, "a");
  loop_.run();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "homes/a/kernel"));
  EXPECT_EQ(UidOf(users, "a"), user.as->uid);
  EXPECT_EQ(Folders(), 1U) << "the other home is gone";
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << "its process lives";

  users.ForgetAside(*users.MoveAside("a"));
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  loop_.restart();
  loop_.run();
  EXPECT_EQ(Folders(), 0U);
  users.PutBack(*users.MoveAside("a"), "a");
  EXPECT_EQ(Folders(), 0U) << "there is none";
}

TEST_F(ExecutorUsersOf, AFolderOfAnAccountIsNotTaken) {
  std::filesystem::create_directories(folder_ / "homes/a");
  ASSERT_EQ(::chown((folder_ / "homes/a").c_str(), kAlice, kAlice), 0);
  ExecutorUsers users = Make();
  EXPECT_EQ(testing::CodeOf(users.Of("a", kBob, false)), Errc::kIo);
  users.Forget("a");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "homes/a"));
}

TEST_F(ExecutorUsersOf, AreTheOwnersWithoutUsersOfTheirOwn) {
  ExecutorUsers users = Make("a reason");
  EXPECT_FALSE(users.Of("a", 0, false).value().as.has_value()) << "the daemon's user";
  EXPECT_EQ(testing::CodeOf(users.Of("a", kAlice, false)), Errc::kNotFound) << "no account has this number";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "homes"));
}

TEST(MissingIsolation, NamesWhyExecutorsHaveNoLimitOfMemory) {
  OwnUsers own{.why_not = "", .first = UserRange::kFirst};
  own.why_no_groups = "a reason";
  const std::vector<std::string> missing = MissingIsolation(own);
  ASSERT_FALSE(missing.empty());
  EXPECT_EQ(missing.back(), "executors have no limit of the machine's memory: a reason");
}

TEST(MissingIsolation, NamesWhyExecutorsReachAbstractSockets) {
  OwnUsers own{.why_not = "", .first = UserRange::kFirst};
  const auto names_them = [&own] {
    return std::ranges::any_of(MissingIsolation(own), [](const std::string& one) {
      return one.find("abstract Unix sockets") != std::string::npos && one.ends_with("a reason");
    });
  };
  own.why_no_namespaces = "";
  EXPECT_FALSE(names_them());
  own.why_no_namespaces = "a reason";
  EXPECT_EQ(names_them(), !platform::FileRules::RefuseAbstractSockets());
}

TEST(WhyNoOwnUsers, NamesTheFolderThatIsClosed) {
  if (::geteuid() != 0) GTEST_SKIP() << "without root, that is the reason";
  const testing::TempFolder folder;
  std::filesystem::create_directories(folder / "run/deep");
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  EXPECT_EQ(WhyNoOwnUsers({folder / "run/deep", "", "libOpenCL.so.1", folder / "nowhere"}), "");
  std::filesystem::permissions(folder / "run", std::filesystem::perms(0750));
  EXPECT_EQ(WhyNoOwnUsers({folder / "run/deep"}), folder / "run" + " is closed to other users");
}

TEST(GroupsOfGpus, AreThoseWithMoreRightsThanOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other groups";
  const testing::TempFolder dev;
  const auto file = [&dev](const std::string& name, gid_t group, unsigned mode) {
    std::ofstream(dev / name) << "";
    std::filesystem::permissions(dev / name, std::filesystem::perms(mode));
    ASSERT_EQ(::chown((dev / name).c_str(), 0, group), 0);
  };
  std::filesystem::create_directory(dev / "dri");
  file("kfd", 104, 0660);
  file("dri/renderD128", 105, 0660);
  file("dri/renderD129", 106, 0666);
  file("dri/card0", 107, 0660);
  file("nvidia0", 0, 0660);
  file("sda", 6, 0660);
  EXPECT_EQ(GroupsOfGpus(dev.path()), (std::vector<gid_t>{104, 105}));
  EXPECT_TRUE(GroupsOfGpus(dev / "nowhere").empty());
}

}  // namespace
}  // namespace weir::daemon
