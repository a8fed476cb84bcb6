// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_home.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

constexpr uid_t kTenant = 54'321, kOther = 54'322;

class ExecutorHome : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder another user's";
    std::filesystem::create_directory(own_);
  }
  struct stat Status(const std::string& path) {
    struct stat found {};
    EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
    return found;
  }
  testing::TempFolder folder_;
  const std::string own_ = folder_ / "own", fallback_ = folder_ / "run/home/a";
};

TEST_F(ExecutorHome, IsTheUsersOwnFolder) {
  ASSERT_EQ(::chown(own_.c_str(), kTenant, kTenant), 0);
  EXPECT_EQ(HomeFolder(kTenant, kTenant, own_, fallback_).value(), own_);
  EXPECT_FALSE(std::filesystem::exists(fallback_));
}

TEST_F(ExecutorHome, IsAFolderOfItsOwnIfTheUserHasNone) {
  ASSERT_EQ(::symlink(own_.c_str(), (folder_ / "link").c_str()), 0);
  for (const std::string& own : {std::string(), own_ /* root's */, folder_ / "nowhere", folder_ / "link"}) {
    EXPECT_EQ(HomeFolder(kTenant, kTenant, own, fallback_).value(), fallback_) << own;
    EXPECT_EQ(Status(fallback_).st_uid, kTenant);
    EXPECT_EQ(Status(fallback_).st_mode & 07777, 0700U);
  }
}

TEST_F(ExecutorHome, KeepsTheUsersFiles) {
  ASSERT_TRUE(HomeFolder(kTenant, kTenant, "", fallback_));
  std::ofstream(fallback_ + "/kernel") << "x";
  ASSERT_TRUE(HomeFolder(kTenant, kTenant, "", fallback_));
  EXPECT_TRUE(std::filesystem::exists(fallback_ + "/kernel"));
}

TEST_F(ExecutorHome, RefusesAFolderOfAnotherUser) {
  ASSERT_TRUE(HomeFolder(kOther, kOther, "", fallback_));
  EXPECT_EQ(testing::CodeOf(HomeFolder(kTenant, kTenant, "", fallback_)), Errc::kIo);
  EXPECT_EQ(Status(fallback_).st_uid, kOther);
}

TEST_F(ExecutorHome, IsNotAFolderThatALinkNames) {
  std::filesystem::create_directories(folder_ / "run/home");
  ASSERT_EQ(::symlink(own_.c_str(), fallback_.c_str()), 0);
  EXPECT_EQ(testing::CodeOf(HomeFolder(kTenant, kTenant, "", fallback_)), Errc::kIo);
  EXPECT_EQ(Status(own_).st_uid, 0U) << "it is not given away";
}

TEST_F(ExecutorHome, ChangesTheOwnerAfterAnInterruption) {
  std::filesystem::create_directories(fallback_);
  EXPECT_EQ(HomeFolder(kTenant, kTenant, "", fallback_).value(), fallback_);
  EXPECT_EQ(Status(fallback_).st_uid, kTenant);
}

TEST(ExecutorHomeEnvironment, IsTheDaemonsOwnIfTheExecutorIsNoOtherUser) {
  EXPECT_TRUE(HomeEnvironment(::geteuid(), "/nowhere", "a").value().empty());
}

}  // namespace
}  // namespace weir::daemon
