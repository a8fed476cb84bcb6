// SPDX-License-Identifier: Apache-2.0
#include "platform/process.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "platform/futex.h"
#include "platform/shared_memory.h"
#include "platform/spawn.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/wait_until.h"

namespace weir::platform {
namespace {

using weir::testing::Child;
using weir::testing::CodeOf;
using weir::testing::WaitUntil;

TEST(StartTimeOf, IdentifiesAProcessUniquely) {
  const auto mine = StartTimeOf(::getpid());
  ASSERT_TRUE(mine) << mine.error().message;
  EXPECT_GT(*mine, 0u);
  EXPECT_EQ(*StartTimeOf(::getpid()), *mine);
}

TEST(StartTimeOf, IsNotMisledByTheNameOfTheProgram) {
  const auto before = StartTimeOf(::getpid());
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  ::prctl(PR_SET_NAME, ") R 1 2 (3");
  const auto named = StartTimeOf(::getpid());
  ::prctl(PR_SET_NAME, name);
  ASSERT_TRUE(named);
  EXPECT_EQ(*named, *before);
}

TEST(ParentOf, IsTheProcessThatStartedIt) {
  EXPECT_EQ(*ParentOf(::getpid()), ::getppid());
  Child child([] { return ::pause(); });
  EXPECT_EQ(*ParentOf(child.pid()), ::getpid());
  const pid_t pid = child.pid();
  child.Kill();
  EXPECT_EQ(CodeOf(ParentOf(pid)), Errc::kNotFound);
}

TEST(StartTimeOf, FindsNoProcessThatHasEnded) {
  Child child([] { return 0; });
  const pid_t pid = child.pid();
  child.Wait();
  EXPECT_EQ(CodeOf(StartTimeOf(pid)), Errc::kNotFound);
  EXPECT_EQ(CodeOf(OpenPidFd(pid)), Errc::kNotFound);
}

TEST(OpenPidFd, BecomesReadableWhenTheProcessEnds) {
  Child child([] {
    for (;;) ::pause();
    return 0;
  });
  const auto fd = OpenPidFd(child.pid());
  ASSERT_TRUE(fd) << fd.error().message;
  pollfd entry{fd->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  child.Kill();
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
}

TEST(UsableCpus, AreAtLeastOne) { EXPECT_FALSE(UsableCpus().empty()); }

TEST(Futex, ReturnsAtOnceWhenTheWordHasChanged) {
  std::atomic<std::uint32_t> word{1};
  FutexWait(word, 0, std::chrono::hours(1));
}

TEST(Futex, ReturnsWhenTheTimeIsOver) {
  std::atomic<std::uint32_t> word{0};
  FutexWait(word, 0, milliseconds(1));
}

TEST(Futex, WakesWaitersInOtherProcesses) {
  const auto region = MakeSharedRegion("weir-test", 4096);
  ASSERT_TRUE(region);
  auto* words = region->mapping.As<std::atomic<std::uint32_t>>();  // [0]: the futex, [1]: children about to wait
  const auto wait = [words] {
    ++words[1];
    while (words[0] == 0) FutexWait(words[0], 0, std::chrono::hours(1));
    return 0;
  };
  Child a(wait), b(wait);
  ASSERT_TRUE(WaitUntil([&] { return words[1] == 2; }));
  words[0] = 1;
  // A child that has read the word but does not sleep yet finds it changed; a sleeping child is woken.
  FutexWakeAll(words[0]);
  EXPECT_EQ(a.Wait(), 0);
  EXPECT_EQ(b.Wait(), 0);
}

TEST(Process, TheLimitOfFilesIsRaisedHereAndNotInProgramsThatAreStarted) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 200;
  if (low.rlim_max < 300) GTEST_SKIP() << "the hard limit of open files is " << low.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  RaiseFileLimit();
  rlimit raised{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  const auto pid = Spawn({.argv = {"/bin/sh", "-c", "test $(ulimit -n) = 200"}});
  ASSERT_TRUE(pid) << pid.error().message;
  int status = 0;
  ASSERT_EQ(::waitpid(*pid, &status, 0), *pid);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Spawn, AFailureIsNoSuccessWhenASignalArrives) {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART: system calls end with EINTR
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{.it_interval = {0, 1'000}, .it_value = {0, 1'000}}, never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  int successes = 0;
  for (int i = 0; i < 300; ++i) successes += Spawn({.argv = {"/nowhere"}}) ? 1 : 0;
  ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_EQ(successes, 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not reaped";
}

TEST(Spawn, TellsWhyTheChildCannotChangeItsUser) {
  Child unprivileged([] {
    // A process that has lowered its priority may not raise it again, which fails with another error.
    if (::nice(10) == -1 || (::geteuid() == 0 && ::setuid(65534) != 0)) return 2;
    const auto pid = Spawn({.argv = {"/bin/true"}, .as = RunAs{}});
    return !pid && pid.error().message.find(std::strerror(EPERM)) != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(unprivileged.Wait(), 0);
}

TEST(Spawn, AChildOfAnotherUserHasItsPrimaryGroupOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may change its user";
  constexpr uid_t kNobody = 65534;
  const passwd* const nobody = ::getpwuid(kNobody);
  if (nobody == nullptr) GTEST_SKIP() << "there is no user 65534";
  Child daemon([group = std::to_string(nobody->pw_gid)] {
    const gid_t more[] = {0, 1, 2};
    if (::setgroups(3, more) != 0) return 2;
    const auto pid =
        Spawn({.argv = {"/bin/sh", "-c", "test \"$(id -G)\" = " + group}, .as = AccountOf(kNobody).value()});
    int status = 0;
    return pid && ::waitpid(*pid, &status, 0) == *pid && status == 0 ? 0 : 1;
  });
  EXPECT_EQ(daemon.Wait(), 0);
}

const uid_t kNoAccount =
    2'147'000'000 + static_cast<uid_t>(::getpid()) % 400'000;  // not that of a test beside this one

TEST(Spawn, AChildOfAUserWithoutAnAccountHasTheGroupsThatItWasGiven) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may change its user";
  const std::string user = std::to_string(kNoAccount);
  const auto pid = Spawn({.argv = {"/bin/sh", "-c", "test \"$(id -u):$(id -G)\" = '" + user + ":" + user + " 7 8'"},
                          .as = RunAs{.uid = kNoAccount, .gid = kNoAccount, .groups = {7, 8}}});
  int status = 0;
  ASSERT_TRUE(pid && ::waitpid(*pid, &status, 0) == *pid);
  EXPECT_EQ(status, 0);
}

TEST(Spawn, AChildThatEndsItsUserIsNeverRootAndAlwaysConfined) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may change its user";
  for (const bool confined : {true, false}) {
    // In the first case the user is root; no process is killed.
    const auto pid = Spawn({.argv = {"/bin/true"},
                            .as = RunAs{.uid = confined ? 0 : kNoAccount, .gid = kNoAccount},
                            .confined = confined,
                            .ends_its_user = true});
    EXPECT_FALSE(pid);
  }
}

TEST(Spawn, TheNumberOfAUsersProcessesIsLimited) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may change its user";
  // The shell is one process; of two more, the second one has no place.
  const auto pid = Spawn({.argv = {"/bin/sh", "-c", "/bin/sleep 5 & /bin/sleep 5 & wait"},
                          .silent = true,
                          .as = RunAs{.uid = kNoAccount, .gid = kNoAccount},
                          .processes_max = 2});
  ASSERT_TRUE(pid);
  int status = 0;
  ASSERT_EQ(::waitpid(*pid, &status, 0), *pid);
  EXPECT_NE(status, 0);
}

}  // namespace
}  // namespace weir::platform
