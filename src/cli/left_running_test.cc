// SPDX-License-Identifier: Apache-2.0
#include "cli/left_running.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/harness/child.h"
#include "tests/harness/temp_folder.h"

namespace weir::cli {
namespace {

using weir::testing::Child;

AttachedProcesses Attached(pid_t pid, const std::string& api, const std::string& opencl = "") {
  ProcessView process;
  process.pid = pid;
  process.api = api;
  VgpuView vgpu;
  vgpu.processes.push_back(process);
  vgpu.opencl = opencl;
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

TEST(LeftRunning, AnExecutorCountsWhileAProgramIsConnectedToIt) {
  const weir::testing::TempFolder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder.path() + "/executor").c_str(), sizeof address.sun_path - 1);
  platform::Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const Child executor([&listener] {
    const int client = ::accept(listener.get(), nullptr, nullptr);
    const char ready = 1;
    if (::send(client, &ready, 1, 0) != 1) return 1;
    for (;;) ::pause();
  });
  platform::Fd program(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(program.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  char ready = 0;
  ASSERT_EQ(::recv(program.get(), &ready, 1, 0), 1);
  const AttachedProcesses attached = Attached(executor.pid(), "opencl", address.sun_path);
  EXPECT_EQ(attached.CountLeft(), 1U);
  program.Reset();
  EXPECT_EQ(attached.CountLeft(), 0U);
}

TEST(LeftRunning, AHostOfModulesEndsWithTheDaemon) {
  Child host = Paused();
  EXPECT_EQ(Attached(host.pid(), "module").CountLeft(), 0U);
}

}  // namespace
}  // namespace weir::cli
