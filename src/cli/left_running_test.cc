// SPDX-License-Identifier: Apache-2.0
#include "cli/left_running.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "tests/harness/child.h"

namespace weir::cli {
namespace {

using weir::testing::Child;

AttachedProcesses Attached(pid_t pid, const std::string& api) {
  VgpuView vgpu;
  vgpu.processes.push_back({.pid = pid, .api = api});
  return AttachedProcesses({vgpu});
}

Child Paused() {
  return Child([] {
    for (;;) ::pause();
    return 0;
  });
}

TEST(LeftRunning, AProgramCountsUntilItEnds) {
  Child program = Paused();
  const AttachedProcesses attached = Attached(program.pid(), "gl");
  EXPECT_EQ(attached.CountLeft(), 1U);
  program.Kill();
  EXPECT_EQ(attached.CountLeft(), 0U);
}

TEST(LeftRunning, AProgramThatHadEndedBeforeDoesNotCount) {
  Child program = Paused();
  const pid_t pid = program.pid();
  program.Kill();
  EXPECT_EQ(Attached(pid, "gl").CountLeft(), 0U);
}

TEST(LeftRunning, AnExecutorCountsWhileItsProgramIsConnected) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  platform::Fd program(ends[0]), executor(ends[1]);
  const Child child([&executor] {
    ::dup2(executor.get(), 9);
    ::close_range(3, 8, 0);
    ::close_range(10, ~0U, 0);
    const char ready = 1;
    if (::write(9, &ready, 1) != 1) return 1;
    for (;;) ::pause();
  });
  executor.Reset();
  char ready = 0;
  ASSERT_EQ(::read(program.get(), &ready, 1), 1);
  const AttachedProcesses attached = Attached(child.pid(), "opencl");
  EXPECT_EQ(attached.CountLeft(), 1U);
  program.Reset();
  EXPECT_EQ(attached.CountLeft(), 0U);
}

}  // namespace
}  // namespace weir::cli
