// SPDX-License-Identifier: Apache-2.0
#include "platform/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
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

#include "platform/fd.h"
#include "platform/file_rules.h"
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
  refused([] { return ::shmget(IPC_PRIVATE, 4096, 0600); });
  refused([] { return ::semget(IPC_PRIVATE, 1, 0600); });
  refused([] { return ::msgget(IPC_PRIVATE, 0600); });
  refused([] { return ::syscall(SYS_mq_open, "weir-confinement-test", O_RDWR | O_CREAT, 0600, nullptr); });
  refused([] { return ::mknod("/tmp/weir-confinement-test", S_IFIFO | 0600, 0); });
  for (const int family : {AF_PACKET, AF_INET, AF_INET6})
    refused([family] { return ::socket(family, family == AF_PACKET ? SOCK_RAW : SOCK_STREAM, 0); });
  refused([] { return ::syscall(0x40000000L | SYS_getpid); });
  EXPECT_EQ(ErrnoInside([] { return ::syscall(SYS_clone3, nullptr, 0); }), ENOSYS);
}

TEST(Confinement, TypesNothingIntoATerminal) {
  for (const unsigned long request : {static_cast<unsigned long>(TIOCSTI), static_cast<unsigned long>(TIOCLINUX)})
    EXPECT_EQ(ErrnoInside([request]() -> long {
                const int host = ::posix_openpt(O_RDWR | O_NOCTTY);
                if (host < 0 || ::unlockpt(host) != 0) return 0;
                ::setsid();
                const int terminal = ::open(::ptsname(host), O_RDWR);  // the controlling one of the new session
                char key = 'x';
                return ::ioctl(terminal, request, &key);
              }),
              EPERM)
        << request;
}

TEST(Confinement, AProgramThatIsSpawnedHasNoTerminal) {
  const TempFolder folder;
  const std::string out = folder / "out";
  const auto pid =
      Spawn({.argv = {"/bin/sh", "-c", "cut -d' ' -f6 /proc/$$/stat > " + out + "; readlink /proc/$$/fd/0 >> " + out},
             .confined = true});
  ASSERT_TRUE(pid) << pid.error().message;
  ::waitpid(*pid, nullptr, 0);
  EXPECT_EQ(ReadFile(out, 4096).value(), std::to_string(*pid) + "\n/dev/null\n") << "its session and standard input";
}

TEST(Confinement, AllowsWhatDriversUse) {
  EXPECT_EQ(ErrnoInside([]() -> long {
              int made = 0;
              std::thread([&] { made = 1; }).join();
              return made == 1 ? 0 : -1;
            }),
            0);
  for (const int family : {AF_UNIX, AF_NETLINK}) {
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

TEST(Confinement, FilesAreWrittenBelowOneFolderOnly) {
  if (!FileRules::Supported()) GTEST_SKIP() << "this kernel has no Landlock";
  const TempFolder inside, outside;
  const std::string there = outside / "there";
  ASSERT_TRUE(WriteFileAtomically(there, "text"));
  const auto run = [&](const std::string& command) {
    const auto pid = Spawn({.argv = {"/bin/sh", "-c", command},
                            .silent = true,
                            .confined = true,
                            .files = FileRights{.writes_below = inside.path()}});
    int status = -1;
    if (pid) ::waitpid(*pid, &status, 0);
    return status == 0;
  };
  EXPECT_TRUE(run("cd " + inside.path() + " && mkdir a b && echo x > a/x && mv a/x b/y && ln -s y b/z && rm -r a"));
  EXPECT_TRUE(run("echo x > /dev/null && cat " + there)) << "devices are written, files are read";
  EXPECT_TRUE(run("echo name > /proc/self/comm")) << "as threads do that name others";
  for (const std::string& command :
       {"echo x > " + there, "echo x >> " + there, "> " + there, "rm " + there, "echo x > " + (outside / "new"),
        "mkdir " + (outside / "folder"), "ln -s x " + (outside / "link"), "mv " + there + " " + inside.path(),
        "ln " + there + " " + (inside / "link"), std::string("echo x > /dev/shm/weir-confinement-test")})
    EXPECT_FALSE(run(command)) << command;
  EXPECT_EQ(ReadFile(there, 100).value(), "text");
}

TEST(Confinement, OnlyNamedFilesAndDevicesAreOpened) {
  if (!FileRules::Supported()) GTEST_SKIP() << "this kernel has no Landlock";
  const TempFolder inside, named, other;
  ASSERT_TRUE(WriteFileAtomically(named / "file", "text"));
  ASSERT_TRUE(WriteFileAtomically(other / "file", "text"));
  const auto run = [&](const std::string& command) {
    const auto pid = Spawn({.argv = {"/bin/sh", "-c", command},
                            .silent = true,
                            .confined = true,
                            .files = FileRights{.writes_below = inside.path(),
                                                .reads = {"/usr", "/bin", "/lib", "/lib64", "/etc", named / "file"},
                                                .devices = {"/dev/null", "/dev/zero"}}});
    int status = -1;
    if (pid) ::waitpid(*pid, &status, 0);
    return status == 0;
  };
  EXPECT_TRUE(run("cat " + (named / "file") + " /etc/passwd /proc/self/status"));
  EXPECT_TRUE(run("cd " + inside.path() + " && echo 'echo x' > a && sh a && cat a && rm a"));
  EXPECT_TRUE(run("ls /dev && head -c 8 /dev/zero > /dev/null"));
  for (const std::string& command :
       {"cat " + (other / "file"), "ls " + other.path(), "ls " + named.path(), "echo x > " + (named / "file"),
        std::string("head -c 8 /dev/full"), std::string("echo x > /dev/full")})
    EXPECT_FALSE(run(command)) << command;
}

TEST(Spawn, WithoutOutputAProgramStillReportsErrors) {
  const TempFolder folder;
  const Fd log(::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto pid =
      Spawn({.argv = {"/bin/sh", "-c", "echo printed; echo reported >&2"}, .output_fd = log.get(), .no_output = true});
  ASSERT_TRUE(pid);
  ::waitpid(*pid, nullptr, 0);
  EXPECT_EQ(ReadFile(folder / "log", 100).value(), "reported\n");
}

TEST(Spawn, AnExpendableProgramIsEndedBeforeOthers) {
  const TempFolder folder;
  for (const bool expendable : {false, true}) {
    const auto pid = Spawn(
        {.argv = {"/bin/sh", "-c", "cat /proc/self/oom_score_adj > " + (folder / "figure")}, .expendable = expendable});
    ASSERT_TRUE(pid);
    ::waitpid(*pid, nullptr, 0);
    const auto figure = ReadFile(folder / "figure", 100);
    ASSERT_TRUE(figure);
    EXPECT_EQ(std::stoi(*figure) >= 500, expendable) << *figure;
  }
}

TEST(Confinement, NothingIsWrittenWithoutAFolder) {
  if (!FileRules::Supported()) GTEST_SKIP() << "this kernel has no Landlock";
  const TempFolder folder;
  const auto run = [](const std::string& command) {
    const auto pid =
        Spawn({.argv = {"/bin/sh", "-c", command}, .silent = true, .confined = true, .files = FileRights{}});
    int status = -1;
    if (pid) ::waitpid(*pid, &status, 0);
    return status == 0;
  };
  EXPECT_TRUE(run("echo x > /dev/null && cat /etc/passwd"));
  for (const std::string& command :
       {"echo x > " + (folder / "new"), std::string("echo name > /proc/self/comm"), std::string("echo x > /dev/zero")})
    EXPECT_FALSE(run(command)) << command;
}

}  // namespace
}  // namespace weir::platform
