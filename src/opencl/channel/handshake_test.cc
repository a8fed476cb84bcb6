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
  const auto accepted = Welcome(std::move(socket), ::geteuid(), 64 << 20, /*in_host_memory=*/false);
  client.join();
  ASSERT_TRUE(accepted) << accepted.error().message;
  EXPECT_EQ(accepted->program, "?[2Jgame?weir: all is well");
}

}  // namespace
}  // namespace weir::opencl
