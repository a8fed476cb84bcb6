// SPDX-License-Identifier: Apache-2.0
#include "dashboard/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "tests/harness/temp_folder.h"

namespace weir::dashboard {
namespace {

class TokenTest : public ::testing::Test {
 protected:
  std::string Kept() {
    const auto token = KeepToken(path_);
    EXPECT_TRUE(token) << token.error().message;
    return token ? *token : std::string();
  }
  void Write(const std::string& text, mode_t mode = 0600) {
    ::unlink(path_.c_str());
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  void ExpectPrivate() {
    struct stat info {};
    ASSERT_EQ(::lstat(path_.c_str(), &info), 0);
    EXPECT_TRUE(S_ISREG(info.st_mode));
    EXPECT_EQ(info.st_mode & 07777, 0600U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1) << "no other file is left";
  }

  testing::TempFolder folder_;
  const std::string path_ = folder_ / "dashboard.token";
};

TEST_F(TokenTest, IsKeptOverARestart) {
  const std::string first = Kept();
  EXPECT_TRUE(IsToken(first)) << first;
  ExpectPrivate();
  EXPECT_EQ(Kept(), first);
  EXPECT_NE(*NewToken(), first);
}

TEST_F(TokenTest, AFileThatThisProgramHasNotMadeIsReplaced) {
  const std::string good(kTokenDigits, 'a');
  Write(good + "\n");
  EXPECT_EQ(Kept(), good);
  for (const std::string& text :
       {std::string(), std::string("\n"), good, good.substr(1) + "\n", good + "a\n", good + "\n\n",
        std::string(kTokenDigits, 'A') + "\n", std::string(kTokenDigits, '\0') + "\n"}) {
    Write(text);
    EXPECT_NE(Kept(), good) << text;
    ExpectPrivate();
  }
  for (const mode_t mode : {0640U, 0604U, 0644U, 0620U}) {
    Write(good + "\n", mode);
    EXPECT_NE(Kept(), good) << mode;
    ExpectPrivate();
  }
}

TEST_F(TokenTest, ALinkIsNotFollowed) {
  const std::string victim = folder_ / "victim";
  std::ofstream(victim) << std::string(kTokenDigits, 'a') + "\n";
  ::chmod(victim.c_str(), 0600);
  ASSERT_EQ(::symlink(victim.c_str(), path_.c_str()), 0);
  EXPECT_NE(Kept(), std::string(kTokenDigits, 'a'));
  EXPECT_TRUE(std::filesystem::exists(victim));
  std::filesystem::remove(victim);
  ExpectPrivate();
}

TEST_F(TokenTest, AFolderInItsPlaceIsAnError) {
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(KeepToken(path_));
  EXPECT_FALSE(KeepToken(folder_ / "no/such/folder"));
}

TEST_F(TokenTest, ThoseThatStartAtTheSameTimeGetTheSame) {
  constexpr int kAtOnce = 8;
  for (int round = 0; round < 20; ++round) {
    ::unlink(path_.c_str());
    // Uses processes, because the name of the temporary file contains the pid.
    std::vector<pid_t> children;
    for (int i = 0; i < kAtOnce; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        const auto token = KeepToken(path_);
        std::ofstream(folder_ / ("got-" + std::to_string(i))) << (token ? *token : "error");
        ::_exit(0);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    std::set<std::string> tokens;
    for (int i = 0; i < kAtOnce; ++i) {
      std::string token;
      std::ifstream(folder_ / ("got-" + std::to_string(i))) >> token;
      tokens.insert(token);
    }
    EXPECT_EQ(tokens.size(), 1U);
    EXPECT_EQ(*tokens.begin(), Kept());
  }
}

}  // namespace
}  // namespace weir::dashboard
