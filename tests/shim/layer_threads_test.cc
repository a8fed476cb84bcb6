// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "platform/thread_cpu.h"

namespace weir::shim {
namespace {

using namespace std::chrono_literals;

/// Threads that begin with the name of the thread that started them, and end with this object.
class StartedThreads {
 public:
  ~StartedThreads() {
    end_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  /// It takes this name when it first runs, after `delay`. No name: it keeps the one that it began with.
  void Start(const std::string& name, std::chrono::milliseconds delay = 0ms) {
    threads_.emplace_back([this, name, delay] {
      std::this_thread::sleep_for(delay);
      if (!name.empty()) ::pthread_setname_np(::pthread_self(), name.c_str());
      while (!end_) std::this_thread::sleep_for(1ms);
    });
  }

 private:
  std::atomic<bool> end_ = false;
  std::vector<std::thread> threads_;
};

std::size_t Named(const char* prefix) { return platform::ThreadsOfThisProcess(prefix).size(); }

TEST(DriverThreads, ThreadsForComputeShadersAreNamed) {
  StartedThreads threads;
  const DriverThreads before;
  for (const char* name : {"test:disk$0", "llvmpipe-0", "llvmpipe-1", "", "", "test:other"}) threads.Start(name);
  before.NameNewWorkers();
  EXPECT_EQ(Named("llvmpipe-cs"), 2U);
  EXPECT_EQ(Named("llvmpipe-"), 4U);
}

TEST(DriverThreads, RasterizersThatRunLateAreWaitedFor) {
  for (const auto& [first, second] : {std::pair{100ms, 100ms}, {0ms, 100ms}, {100ms, 0ms}}) {
    StartedThreads threads;
    const DriverThreads before;
    threads.Start("llvmpipe-0", first);
    threads.Start("llvmpipe-1", second);
    threads.Start("");
    threads.Start("");
    before.NameNewWorkers();
    EXPECT_EQ(Named("llvmpipe-cs"), 2U);
    EXPECT_EQ(Named("llvmpipe-"), 4U);
  }
}

TEST(DriverThreads, OtherThreadsKeepTheirNames) {
  StartedThreads threads;
  threads.Start("");  // was there before
  const DriverThreads before;
  before.NameNewWorkers();
  EXPECT_EQ(Named("llvmpipe-"), 0U);
}

}  // namespace
}  // namespace weir::shim
