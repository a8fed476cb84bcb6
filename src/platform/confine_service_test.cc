// SPDX-License-Identifier: Apache-2.0
#include "platform/confine_service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "platform/call_filter.h"
#include "platform/fd.h"
#include "platform/file_rules.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

/// Calls `confined` in a child that has confined itself; its value is the child's exit status.
template <typename Confined>
int InConfinedChild(Confined confined, const ServiceRights& rights = {}) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ConfineService(rights) ? confined() : 99);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ConfinedService, RefusesProgramsFilesAndSockets) {
  const weir::testing::TempFolder folder;
  const std::string file = folder / "file";
  ASSERT_EQ(::close(::open(file.c_str(), O_WRONLY | O_CREAT, 0600)), 0);
  // The number of the first call that was not refused; 0: all were.
  EXPECT_EQ(InConfinedChild([&] {
              int number = 0;
              const auto refused = [&number](long result) {
                ++number;
                return result < 0 && errno == EPERM;
              };
              const char* const argv[] = {"/bin/false", nullptr};  // its status, 1, is the number of this call
              if (!refused(::execv(argv[0], const_cast<char**>(argv)))) return number;
              if (!refused(::fork())) return number;
              if (!refused(::open(file.c_str(), O_WRONLY))) return number;
              if (!refused(::open(file.c_str(), O_RDWR))) return number;
              if (!refused(::open((file + "2").c_str(), O_RDONLY | O_CREAT, 0600))) return number;
              if (!refused(::unlink(file.c_str()))) return number;
              if (!refused(::rename(file.c_str(), (file + "2").c_str()))) return number;
              if (!refused(::chmod(file.c_str(), 0777))) return number;
              if (!refused(::mkdir((file + "3").c_str(), 0700))) return number;
              if (!refused(::socket(AF_INET, SOCK_STREAM, 0))) return number;
              if (!refused(::socket(AF_NETLINK, SOCK_RAW, 0))) return number;
              if (!refused(::kill(::getppid(), 0))) return number;
              if (!refused(::syscall(SYS_tkill, ::getppid(), 0))) return number;
              if (!refused(::syscall(SYS_tgkill, ::getppid(), ::getppid(), 0))) return number;
              if (!refused(::syscall(SYS_rt_sigqueueinfo, ::getppid(), 0, nullptr))) return number;
              if (!refused(::bind(0, nullptr, 0))) return number;
              if (!refused(::listen(0, 1))) return number;
              if (!refused(::ioctl(0, TIOCSTI, "x"))) return number;
              if (!refused(::fcntl(0, F_SETOWN, ::getppid()))) return number;
              const rlimit none{};
              if (!refused(::setrlimit(RLIMIT_CORE, &none))) return number;
              if (!refused(::setpriority(PRIO_PROCESS, 0, 19))) return number;
              if (!refused(::inotify_init1(0))) return number;
              if (!refused(::syscall(SYS_mlockall, MCL_CURRENT))) return number;
              if (kChecksLeaks) return 0;  // the leak checker needs the others
              if (!refused(::syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0))) return number;
              if (!refused(::prctl(PR_SET_DUMPABLE, 1))) return number;
              return 0;
            }),
            0);
}

/// A TCP socket that listens on 127.0.0.1, and its address.
struct TcpDoor {
  TcpDoor() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket.get(), 1), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  }
  [[nodiscard]] bool ConnectTo(const TcpDoor& other) const {
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&other.address), sizeof other.address) == 0;
  }
  Fd socket;
  sockaddr_in address{};
};

TEST(ConfinedService, DoesNotConnectWithTheSocketThatItListensOn) {
  if (!FileRules::CanRefuseConnections()) GTEST_SKIP() << "this kernel cannot refuse connections";
  const TcpDoor portals, relays, another;
  // A socket that listens no more can connect.
  EXPECT_EQ(InConfinedChild([&] {
              if (::shutdown(portals.socket.get(), SHUT_RDWR) != 0) return 1;
              return portals.ConnectTo(another) || errno != EACCES ? 2 : 0;
            }),
            0);
  EXPECT_EQ(InConfinedChild(
                [&] {
                  if (::shutdown(relays.socket.get(), SHUT_RDWR) != 0) return 1;
                  return relays.ConnectTo(another) ? 0 : 2;
                },
                {.network = true}),
            0)
      << "a relay to a peer connects";
}

TEST(ConfinedService, LeavesWhatServingNeeds) {
  EXPECT_EQ(InConfinedChild([] {
              const int control = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
              if (control < 0) return 1;
              if (::open("/proc/self/status", O_RDONLY) < 0) return 2;
              bool ran = false;
              std::thread([&ran] { ran = true; }).join();
              if (::syscall(SYS_tgkill, ::getpid(), ::gettid(), 0) != 0) return 4;
              return ran ? 0 : 3;
            }),
            0);
}

TEST(ConfinedService, MayOpenConnectionsIfItsRightsSaySo) {
  EXPECT_EQ(InConfinedChild(
                [] {
                  if (::socket(AF_INET, SOCK_STREAM, 0) < 0) return 1;
                  if (::socket(AF_INET6, SOCK_DGRAM, 0) < 0) return 2;
                  if (::socket(AF_ALG, SOCK_SEQPACKET, 0) >= 0 || errno != EPERM) return 4;
                  return ::open("/dev/null", O_WRONLY) < 0 && errno == EPERM ? 0 : 3;
                },
                {.network = true}),
            0);
}

TEST(ConfinedService, BecomesItsUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(InConfinedChild(
                [] {
                  uid_t real = 0, effective = 0, saved = 0;
                  ::getresuid(&real, &effective, &saved);
                  if (real != 54'321 || effective != 54'321 || saved != 54'321) return 1;
                  if (::getgid() != 54'321 || ::getgroups(0, nullptr) != 0) return 2;
                  return ::setuid(0) < 0 ? 0 : 3;
                },
                {.user = 54'321}),
            0);
}

}  // namespace
}  // namespace weir::platform
