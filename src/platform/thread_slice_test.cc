// SPDX-License-Identifier: Apache-2.0
#include "platform/thread_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <thread>

namespace weir::platform {
namespace {

TEST(ThreadSlice, ChangesOnlyTheSlice) {
  std::thread([] {
    const int policy = ::sched_getscheduler(0);
    const int nice = ::getpriority(PRIO_PROCESS, 0);
    EXPECT_TRUE(SetThreadSlice(microseconds(100)));
    EXPECT_EQ(::sched_getscheduler(0), policy);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), nice);
    EXPECT_TRUE(SetThreadSlice(Duration{0}));
    EXPECT_EQ(::sched_getscheduler(0), policy);
  }).join();
}

TEST(ThreadSlice, SkipsThreadsOfOtherSchedulingClasses) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_IDLE, &none), 0);
    EXPECT_FALSE(SetThreadSlice(microseconds(100)));
    EXPECT_EQ(::sched_getscheduler(0), SCHED_IDLE);
  }).join();
}

}  // namespace
}  // namespace weir::platform
