// SPDX-License-Identifier: Apache-2.0
#include "platform/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "platform/files.h"
#include "platform/spawn.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

using weir::testing::TempFolder;

constexpr int kNotConfined = 250;

/// What `call` returns in a confined process: 0, or its errno.
int ErrnoInside(const std::function<long()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!Confine()) ::_exit(kNotConfined);
    errno = 0;
    ::_exit(call() < 0 ? errno : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Confinement, RefusesCallsThatNoDriverNeeds) {
  const auto refused = [](const std::function<long()>& call) { EXPECT_EQ(ErrnoInside(call), EPERM); };
  refused([] {
    char byte = 0;
    iovec here{&byte, 1}, there{&byte, 1};
    return ::process_vm_readv(::getppid(), &here, 1, &there, 1, 0);
  });
  refused([] { return ::unshare(CLONE_NEWUSER); });
  refused([] { return ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0); });
  refused([] { return ::syscall(SYS_mount, nullptr, "/", nullptr, 0, nullptr); });
  refused([] { return ::syscall(SYS_bpf, 0, nullptr, 0); });
  refused([] { return ::syscall(SYS_io_uring_setup, 1, nullptr); });
  refused([] { return ::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); });
  refused([] { return ::mknod("/tmp/weir-confinement-test", S_IFIFO | 0600, 0); });
  refused([] { return ::socket(AF_PACKET, SOCK_RAW, 0); });
  refused([] { return ::syscall(0x40000000L | SYS_getpid); });
  EXPECT_EQ(ErrnoInside([] { return ::syscall(SYS_clone3, nullptr, 0); }), ENOSYS);
}

TEST(Confinement, AllowsWhatDriversUse) {
  EXPECT_EQ(ErrnoInside([]() -> long {
              int made = 0;
              std::thread([&] { made = 1; }).join();
              return made == 1 ? 0 : -1;
            }),
            0);
  for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) {
    const int error = ErrnoInside([family] { return ::socket(family, SOCK_DGRAM, 0); });
    EXPECT_NE(error, EPERM) << family;
    EXPECT_NE(error, kNotConfined);
  }
}

TEST(Confinement, HoldsInTheProgramThatIsSpawned) {
  const TempFolder folder;
  const std::string out = folder / "status";
  const auto pid = Spawn({.argv = {"/bin/sh", "-c", "cat /proc/self/status > " + out}, .confined = true});
  ASSERT_TRUE(pid) << pid.error().message;
  int status = -1;
  ::waitpid(*pid, &status, 0);
  ASSERT_EQ(status, 0);
  const auto text = ReadFile(out, 65536);
  ASSERT_TRUE(text);
  for (const char* line : {"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapPrm:\t0000000000000000\n",
                           "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n"})
    EXPECT_NE(text->find(line), std::string::npos) << line << *text;
}

}  // namespace
}  // namespace weir::platform
