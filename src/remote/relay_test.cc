// SPDX-License-Identifier: Apache-2.0
#include "remote/relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "opencl/channel/handshake.h"
#include "platform/clock.h"
#include "platform/unix_socket.h"
#include "remote/handshake.h"
#include "tests/harness/child.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/tls_pair.h"
#include "tests/harness/wait_until.h"

namespace weir::remote {
namespace {

using testing::Child;

// A daemon's relay has a socket that every user can open, because executors run as the users that own their vGPUs.
TEST(DaemonsRelay, ServesOnlyChildrenOfTheDaemon) {
  const testing::TempFolder folder;
  const std::string path = folder / "s";
  int go[2] = {};
  ASSERT_EQ(::pipe(go), 0);
  // Stands for the daemon; its child stands for an executor.
  Child daemon([&] {
    char byte = 0;
    if (::read(go[0], &byte, 1) != 1) return 2;
    return Child([&] { return opencl::Connect(path, "executor") ? 0 : 1; }).Wait();
  });
  testing::SocketPair sockets = testing::ConnectedSockets();
  const auto portal = net::AdoptTcp(std::move(sockets.server));
  ASSERT_TRUE(SendWelcome(*portal, "game", {.bytes = 64 << 20}, platform::NowNs()));
  std::atomic<bool> ready{false};
  RelayOptions options;
  options.listener = *platform::ListenSeqPacket(path, 0666);
  options.control = *platform::ListenSeqPacket(folder / "control", 0600);
  options.connect = [&sockets](const proto::MoveRequest&) -> Result<std::unique_ptr<net::Stream>> {
    if (!sockets.client) return Fail(Errc::kUnavailable, "this node takes one connection");
    return net::AdoptTcp(std::move(sockets.client));
  };
  options.parent = daemon.pid();
  options.for_children = true;
  options.when_ready = [&ready] { ready = true; };
  std::thread relay([&] { EXPECT_TRUE(RunRelay(std::move(options))); });
  EXPECT_TRUE(testing::WaitUntil([&] { return ready.load(); }));
  EXPECT_FALSE(opencl::Connect(path, "stranger")) << "not a child of the daemon";
  EXPECT_EQ(::write(go[1], "1", 1), 1);
  EXPECT_EQ(daemon.Wait(), 0);
  relay.join();
  for (const int end : go) ::close(end);
}

}  // namespace
}  // namespace weir::remote
