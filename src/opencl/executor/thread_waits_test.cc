// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/thread_waits.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace weir::opencl {
namespace {

TEST(WaitsOfThreads, AreCountedOnce) {
  ThreadWaits waits({});
  const ThreadWaits::Sums first = waits.Sample();
  EXPECT_GE(first.threads, 1U);
  EXPECT_GE(first.elsewhere_ns, 0);
  std::thread([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }).join();
  const ThreadWaits::Sums second = waits.Sample();
  EXPECT_GE(second.elsewhere_ns + second.steal_ns, first.elsewhere_ns + first.steal_ns + 20'000'000);
  EXPECT_GE(second.steal_ns, first.steal_ns);
}

}  // namespace
}  // namespace weir::opencl
