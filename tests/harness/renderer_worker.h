// SPDX-License-Identifier: Apache-2.0
// Threads that look like a software renderer's workers, and the CPU time that they use.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/process.h"
#include "shim/common/meter.h"
#include "tests/harness/wait_until.h"

namespace weir::testing {

inline constexpr std::int64_t kMs = 1'000'000;
inline constexpr std::int64_t kSecond = 1'000 * kMs;

inline std::int64_t ReadClock(clockid_t clock) {
  timespec t{};
  EXPECT_EQ(::clock_gettime(clock, &t), 0);
  return static_cast<std::int64_t>(t.tv_sec) * kSecond + t.tv_nsec;
}
inline std::int64_t OwnCpuNs() { return ReadClock(CLOCK_THREAD_CPUTIME_ID); }

inline void BurnCpu(std::int64_t ns) {
  for (const std::int64_t until = OwnCpuNs() + ns; OwnCpuNs() < until;) {
  }
}

inline shim::DeviceCpus CpusOf(std::initializer_list<int> cpus) {
  shim::DeviceCpus device;
  for (const int cpu : cpus) device.mask[static_cast<std::size_t>(cpu) / 64] |= 1ULL << (cpu % 64);
  return device;
}

/// A thread that has the name of a renderer's worker and burns the requested CPU time. Its destructor waits until the
/// kernel no longer lists the thread: joining returns a moment earlier, and the next test would find this worker.
class Worker {
 public:
  explicit Worker(const char* name) : thread_([this, name] { Run(name); }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return named_; });
  }
  ~Worker() {
    Do([] {});
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    EXPECT_TRUE(WaitUntil([this] { return ::access(("/proc/self/task/" + std::to_string(tid_)).c_str(), F_OK) != 0; }));
  }

  /// Burns the time, then sleeps again.
  void Burn(std::int64_t ns) {
    Do([ns] { BurnCpu(ns); });
  }
  void Do(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !work_; });
  }
  /// All CPU time since the thread's start.
  std::int64_t CpuNs() {
    clockid_t clock{};
    EXPECT_EQ(::pthread_getcpuclockid(thread_.native_handle(), &clock), 0);
    return ReadClock(clock);
  }
  std::vector<int> Cpus() {
    std::vector<int> cpus;
    Do([&cpus] { cpus = platform::UsableCpus(); });
    return cpus;
  }

 private:
  void Run(const char* name) {
    ::pthread_setname_np(::pthread_self(), name);
    std::unique_lock lock(mutex_);
    tid_ = ::gettid();
    named_ = true;
    changed_.notify_all();
    for (;;) {
      changed_.wait(lock, [this] { return work_ || ending_; });
      if (!work_) return;
      work_();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool named_ = false;
  bool ending_ = false;
  pid_t tid_ = 0;
  std::thread thread_;
};

}  // namespace weir::testing
