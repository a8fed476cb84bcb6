// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_book.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>

#include "platform/process.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

class Child {
 public:
  Child() : pid(::fork()) {
    if (pid == 0)
      for (;;) ::pause();
  }
  ~Child() { End(); }
  void End() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }
  pid_t pid;
};

class ExecutorBookTest : public ::testing::Test {
 protected:
  testing::TempFolder folder;
  const std::string path = folder / "v.executors";
};

TEST_F(ExecutorBookTest, TheNextDaemonKnowsEarlierExecutors) {
  const Child executor, other;
  ASSERT_TRUE(ExecutorBook(path).Add(executor.pid));
  const ExecutorBook next(path);
  EXPECT_TRUE(next.Has(executor.pid));
  EXPECT_FALSE(next.Has(other.pid));
}

TEST_F(ExecutorBookTest, AReusedPidIsAnotherProcess) {
  const Child later;
  const auto start = platform::StartTimeOf(later.pid);
  ASSERT_TRUE(start);
  std::ofstream(path) << later.pid << " " << *start - 1 << "\n";
  EXPECT_FALSE(ExecutorBook(path).Has(later.pid));
  std::ofstream(path) << later.pid << " " << *start << "\n";
  EXPECT_TRUE(ExecutorBook(path).Has(later.pid));
}

TEST_F(ExecutorBookTest, TheNextDaemonEndsEarlierExecutorsAndNoOther) {
  Child executor;
  const Child other, reused;
  ASSERT_TRUE(ExecutorBook(path).Add(executor.pid));
  std::ofstream(path, std::ios::app) << reused.pid << " " << *platform::StartTimeOf(reused.pid) - 1 << "\n";
  ExecutorBook(path).Signal(SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(executor.pid, &status, 0), executor.pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  executor.pid = 0;
  for (const pid_t pid : {other.pid, reused.pid}) EXPECT_EQ(::waitpid(pid, &status, WNOHANG), 0) << "it lives";
}

TEST_F(ExecutorBookTest, EndedProcessesAreOmitted) {
  Child ended;
  const Child living;
  ExecutorBook book(path);
  ASSERT_TRUE(book.Add(ended.pid));
  const pid_t pid = ended.pid;
  ended.End();
  ASSERT_TRUE(book.Add(living.pid));
  EXPECT_FALSE(book.Has(pid));
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(ExecutorBookTest, AFileThatIsDamagedHasNoEntries) {
  const Child process;
  for (const std::string& text : {std::string("rubbish\n"), std::to_string(process.pid), std::string(100'000, '1')}) {
    std::ofstream(path) << text;
    EXPECT_FALSE(ExecutorBook(path).Has(process.pid));
  }
  EXPECT_TRUE(ExecutorBook(path).Add(process.pid));
  ExecutorBook book(path);
  EXPECT_TRUE(book.Has(process.pid));
  book.Clear();
  EXPECT_FALSE(book.Has(process.pid));
}

}  // namespace
}  // namespace weir::daemon
