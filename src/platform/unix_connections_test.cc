// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "platform/fd.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"

namespace weir::platform {
namespace {

using weir::testing::Child;
using weir::testing::CodeOf;

struct SocketPair {
  Fd here, there;
  explicit SocketPair(int type = SOCK_STREAM) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
    here.Reset(ends[0]);
    there.Reset(ends[1]);
  }
};

/// A child that has only the descriptors 0, 1, 2 and `kept`, until it is killed.
Child ChildWith(int kept, int as = 9) {
  return Child([kept, as] {
    if (::dup2(kept, as) < 0) return 1;
    ::close_range(3, static_cast<unsigned>(as) - 1, 0);
    ::close_range(static_cast<unsigned>(as) + 1, ~0U, 0);
    const char ready = 1;
    if (::write(as, &ready, 1) != 1) return 1;
    for (;;) ::pause();
  });
}

void AwaitReady(int from) {
  char ready = 0;
  ASSERT_EQ(::read(from, &ready, 1), 1);
}

TEST(UnixConnections, IsOpenUntilThePeerClosesItsEnd) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    SocketPair pair(type);
    Child child = ChildWith(pair.there.get());
    pair.there.Reset();
    AwaitReady(pair.here.get());
    const auto before = HasOpenUnixConnection(child.pid());
    ASSERT_TRUE(before) << before.error().message;
    EXPECT_TRUE(*before);
    pair.here.Reset();
    const auto after = HasOpenUnixConnection(child.pid());
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_FALSE(*after);
  }
}

TEST(UnixConnections, AStandardOutputThatIsASocketIsNoConnection) {
  SocketPair pair;
  const Child child([&pair] {
    ::dup2(pair.there.get(), 0);
    ::dup2(pair.there.get(), 1);
    ::dup2(pair.there.get(), 2);
    ::close_range(3, ~0U, 0);
    const char ready = 1;
    if (::write(1, &ready, 1) != 1) return 1;
    for (;;) ::pause();
  });
  AwaitReady(pair.here.get());
  const auto open = HasOpenUnixConnection(child.pid());
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_FALSE(*open);
}

TEST(UnixConnections, APipeIsNoConnection) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Fd read(ends[0]), write(ends[1]);
  const Child child = ChildWith(write.get());
  AwaitReady(read.get());
  const auto open = HasOpenUnixConnection(child.pid());
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_FALSE(*open);
}

TEST(UnixConnections, AProcessThatHasEndedHasNone) {
  Child child([] { return 0; });
  const pid_t pid = child.pid();
  child.Wait();
  EXPECT_EQ(CodeOf(HasOpenUnixConnection(pid)), Errc::kNotFound);
}

}  // namespace
}  // namespace weir::platform
