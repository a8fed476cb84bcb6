// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace weir::opencl {
namespace {

constexpr int kNoSandbox = 250;

/// Returns 0 or the errno of `call` in a sandboxed process.
int ErrnoInside(const std::function<long()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!EnterSandbox()) ::_exit(kNoSandbox);
    errno = 0;
    ::_exit(call() < 0 ? errno : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(AnalyzerSandbox, RefusesCallsThatAffectOtherProcesses) {
  const pid_t other = ::getpid();
  const auto refused = [](const std::function<long()>& call) { EXPECT_EQ(ErrnoInside(call), EPERM); };
  refused([other] { return ::syscall(SYS_tgkill, other, other, 0); });
  refused([other] { return ::kill(other, 0); });
  refused([other] { return ::syscall(SYS_tkill, other, 0); });
  refused([other] { return ::syscall(SYS_rt_sigqueueinfo, other, 0, nullptr); });
  refused([other] {
    char byte = 0;
    iovec here{&byte, 1}, there{&byte, 1};
    return ::process_vm_readv(other, &here, 1, &there, 1, 0);
  });
  refused([other] { return ::syscall(SYS_pidfd_open, other, 0); });
  refused([] { return ::syscall(SYS_pidfd_getfd, 0, 0, 0); });
  refused([other] { return ::syscall(SYS_ptrace, 16, other, nullptr, nullptr); });
  refused([other] {
    rlimit limit{};
    return ::syscall(SYS_prlimit64, other, RLIMIT_NOFILE, nullptr, &limit);
  });
  refused([] { return ::setpgid(0, 0); });
  refused([other] { return ::fcntl(0, F_SETOWN, other); });
  refused([] { return ::fcntl(0, F_SETSIG, SIGKILL); });
  for (const int command : {F_GETFD, F_GETFL, F_DUPFD_CLOEXEC, F_GET_SEALS})
    EXPECT_NE(ErrnoInside([command] { return ::fcntl(0, command, 0); }), EPERM) << command;
}

TEST(AnalyzerSandbox, RefusesSocketsNamespacesAndNewLimits) {
  const auto refused = [](const std::function<long()>& call) { EXPECT_EQ(ErrnoInside(call), EPERM); };
  refused([] { return ::socket(AF_UNIX, SOCK_STREAM, 0); });
  refused([] { return ::socketpair(AF_UNIX, SOCK_STREAM, 0, nullptr); });
  refused([] { return ::unshare(CLONE_NEWUSER); });
  refused([] { return ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0); });
  refused([] { return ::syscall(SYS_io_uring_setup, 1, nullptr); });
  refused([] { return ::syscall(SYS_bpf, 0, nullptr, 0); });
  refused([] { return ::syscall(SYS_mount, nullptr, "/", nullptr, 0, nullptr); });
  refused([] { return ::syscall(SYS_setuid, 0); });
  refused([] {
    const rlimit limit{1, 1};
    return ::setrlimit(RLIMIT_NOFILE, &limit);
  });
  EXPECT_EQ(ErrnoInside([] { return ::syscall(SYS_clone3, nullptr, 0); }), ENOSYS);
}

TEST(AnalyzerSandbox, OpensSystemFilesForReadingOnly) {
  EXPECT_EQ(ErrnoInside([] { return ::open("/usr", O_RDONLY | O_DIRECTORY); }), 0);
  EXPECT_EQ(ErrnoInside([] { return ::open("/dev/null", O_WRONLY); }), EPERM);
  EXPECT_EQ(ErrnoInside([] { return ::open("/tmp", O_RDWR | O_TMPFILE, 0600); }), EPERM);
  EXPECT_EQ(ErrnoInside([] { return ::unlink("/tmp/weir-sandbox-test"); }), EPERM);
  if (!HasLandlock()) return;
  EXPECT_EQ(ErrnoInside([] { return ::open("/etc/passwd", O_RDONLY); }), EACCES);
}

TEST(AnalyzerSandbox, StartsPrograms) {
  EXPECT_EQ(ErrnoInside([]() -> long {
              const rlimit* const nothing = nullptr;
              rlimit limit{};
              if (::syscall(SYS_prlimit64, 0, RLIMIT_STACK, nothing, &limit) != 0) return -1;
              char name[] = "true";
              char* argv[]{name, nullptr};
              char* environment[]{nullptr};
              pid_t child = -1;
              errno = ::posix_spawn(&child, "/usr/bin/true", nullptr, nullptr, argv, environment);
              int status = -1;
              if (errno != 0 || ::waitpid(child, &status, 0) != child) return -1;
              errno = status;
              return status == 0 ? 0 : -1;
            }),
            0);
}

}  // namespace
}  // namespace weir::opencl
