// SPDX-License-Identifier: Apache-2.0
#include "opencl/channel/handshake.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "platform/unix_socket.h"
#include "tests/harness/temp_folder.h"

namespace weir::opencl {
namespace {

// The name appears in the logs of executors, portals and relays.
TEST(OpenClHandshake, TheNameOfAProgramIsPrintable) {
  const testing::TempFolder folder;
  const platform::Fd listener = *platform::ListenSeqPacket(folder / "s", 0600);
  std::thread client([&] { EXPECT_TRUE(Connect(folder / "s", "\x1b[2Jgame\nweir: all is well")); });
  ASSERT_TRUE(platform::WaitReadable(listener.get(), 10'000));
  platform::Fd socket = *platform::AcceptUnix(listener.get());
  ASSERT_TRUE(platform::WaitReadable(socket.get(), 10'000));
  const auto accepted =
      Welcome(std::move(socket), {.owner = ::geteuid()}, {.buffers = 64 << 20}, /*in_host_memory=*/false);
  client.join();
  ASSERT_TRUE(accepted) << accepted.error().message;
  EXPECT_EQ(accepted->program, "?[2Jgame?weir: all is well");
}

/// Accepts a connection that `listener` is to get.
platform::Fd AcceptFrom(const platform::Fd& listener) {
  EXPECT_TRUE(platform::WaitReadable(listener.get(), 10'000));
  return *platform::AcceptUnix(listener.get());
}

TEST(OpenClHandshake, AnExecutorThatEndsBeforeItRepliesIsFollowedByTheNext) {
  const testing::TempFolder folder;
  const platform::Fd listener = *platform::ListenSeqPacket(folder / "s", 0600);
  Result<Connection> connection = Fail(Errc::kInternal, "not connected");
  std::thread client([&] { connection = Connect(folder / "s", "game"); });
  AcceptFrom(listener);  // ends before it reads the Hello
  {
    const platform::Fd second = AcceptFrom(listener);
    EXPECT_TRUE(platform::WaitReadable(second.get(), 10'000));
    EXPECT_TRUE(platform::ReceivePacket(second.get(), 4096));  // ends before it answers
  }
  platform::Fd third = AcceptFrom(listener);
  EXPECT_TRUE(platform::WaitReadable(third.get(), 10'000));
  const auto accepted =
      Welcome(std::move(third), {.owner = ::geteuid()}, {.buffers = 64 << 20}, /*in_host_memory=*/false);
  client.join();
  EXPECT_TRUE(accepted);
  EXPECT_TRUE(connection) << connection.error().message;
}

TEST(OpenClHandshake, ExecutorsThatAlwaysEndAreReportedAsSuch) {
  const testing::TempFolder folder;
  const platform::Fd listener = *platform::ListenSeqPacket(folder / "s", 0600);
  Result<Connection> connection = Fail(Errc::kInternal, "not connected");
  std::thread client([&] { connection = Connect(folder / "s", "game"); });
  for (int i = 0; i < 3; ++i) AcceptFrom(listener);
  client.join();
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, Errc::kIo);  // not kUnavailable: the vGPU exists
  EXPECT_NE(connection.error().message.find("closed the connection without a reply, 3 times"), std::string::npos)
      << connection.error().message;
}

}  // namespace
}  // namespace weir::opencl
