// SPDX-License-Identifier: Apache-2.0
#include "platform/mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

namespace weir::platform {
namespace {

TEST(Mutex, IsHeldByOneThreadAtATime) {
  constexpr int kThreads = 8, kRounds = 20'000;
  Mutex mutex;
  int sum = 0;  // not atomic: only the mutex keeps additions from being lost
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          const std::lock_guard lock(mutex);
          sum = sum + 1;
        }
      });
  }
  EXPECT_EQ(sum, kThreads * kRounds);
}

TEST(Mutex, WakesEveryThreadThatWaits) {
  constexpr int kThreads = 8;
  Mutex mutex;
  int taken = 0;
  std::vector<std::jthread> threads;
  mutex.lock();
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      const std::lock_guard lock(mutex);
      ++taken;
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most of them sleep by then; the test needs no more
  mutex.unlock();
  threads.clear();  // a thread that is not woken never ends
  EXPECT_EQ(taken, kThreads);
}

TEST(Mutex, IsTakenOnlyIfItIsFree) {
  Mutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(Mutex, ThatAWaitingThreadHasTakenIsFreeAfterItsUnlock) {
  Mutex mutex;
  mutex.lock();
  std::jthread waiting([&] { const std::lock_guard lock(mutex); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  mutex.unlock();
  waiting.join();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(Mutex, LeavesErrnoAlone) {
  Mutex mutex;
  mutex.lock();
  int after = 0;
  std::jthread waiting([&] {
    errno = ENOTTY;
    const std::lock_guard lock(mutex);
    after = errno;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  errno = EDOM;
  mutex.unlock();
  EXPECT_EQ(errno, EDOM);
  waiting.join();
  EXPECT_EQ(after, ENOTTY);
}

TEST(Mutex, IsFreeInTheChildOfAForkOnceItIsRenewed) {
  Mutex mutex;
  mutex.lock();
  const pid_t child = ::fork();
  if (child == 0) {
    if (mutex.try_lock()) ::_exit(1);
    mutex.Renew();
    ::_exit(mutex.try_lock() ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  mutex.unlock();
}

}  // namespace
}  // namespace weir::platform
