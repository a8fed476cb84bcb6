// SPDX-License-Identifier: Apache-2.0
#include "platform/namespaces.h"

#include <gtest/gtest.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "platform/fd.h"
#include "platform/spawn.h"
#include "tests/harness/child.h"

namespace weir::platform {
namespace {

/// The address of an abstract socket of this process.
struct AbstractAddress {
  AbstractAddress() {
    const std::string name = "weir-namespaces-test-" + std::to_string(::getpid());
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length = 0;
};

/// 0, or the error of connecting to it.
int ErrorOfConnecting(const AbstractAddress& to) {
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(socket.get(), to.get(), to.length) == 0 ? 0 : errno;
}

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoOwnNamespaces(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(Namespaces, HideAbstractSocketsOfOthers) {
  const AbstractAddress address;
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), address.get(), address.length), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  testing::Child shares([&] { return ErrorOfConnecting(address); });
  EXPECT_EQ(shares.Wait(), 0);
  testing::Child alone([&] { return EnterOwnNamespaces() ? ErrorOfConnecting(address) : 99; });
  EXPECT_EQ(alone.Wait(), ECONNREFUSED);
}

TEST_F(Namespaces, HideSharedMemoryOfOthers) {
  const int memory = ::shmget(IPC_PRIVATE, 4096, 0600);
  ASSERT_GE(memory, 0);
  const auto look = [memory] {
    shmid_ds state{};
    return ::shmctl(memory, IPC_STAT, &state) == 0 ? 0 : errno;
  };
  testing::Child shares(look);
  EXPECT_EQ(shares.Wait(), 0);
  testing::Child alone([&] { return EnterOwnNamespaces() ? look() : 99; });
  EXPECT_EQ(alone.Wait(), EINVAL);
  ::shmctl(memory, IPC_RMID, nullptr);
}

TEST_F(Namespaces, AreThoseOfTheProgramThatIsSpawned) {
  char here[64] = {};
  ASSERT_GT(::readlink("/proc/self/ns/net", here, sizeof here - 1), 0);
  for (const bool own : {true, false}) {
    const auto pid =
        Spawn({.argv = {"/bin/sh", "-c", "test \"$(readlink /proc/self/ns/net)\" = '" + std::string(here) + "'"},
               .own_namespaces = own});
    ASSERT_TRUE(pid) << pid.error().message;
    int status = 0;
    ASSERT_EQ(::waitpid(*pid, &status, 0), *pid);
    EXPECT_EQ(status == 0, !own);
  }
}

TEST(WithoutOwnNamespaces, TheReasonIsToldAndNoProgramStarts) {
  testing::Child unprivileged([] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    if (WhyNoOwnNamespaces() != std::strerror(EPERM)) return 3;
    return Spawn({.argv = {"/bin/true"}, .own_namespaces = true}) ? 4 : 0;
  });
  EXPECT_EQ(unprivileged.Wait(), 0);
}

}  // namespace
}  // namespace weir::platform
