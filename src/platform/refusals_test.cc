// SPDX-License-Identifier: Apache-2.0
#include "platform/refusals.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

TEST(RefuseWaiting, RefusesOnlySomeAtOnceAndTheOthersLater) {
  const weir::testing::TempFolder folder;
  auto listener = ListenSeqPacket(folder / "s", 0600);
  ASSERT_TRUE(listener) << listener.error().message;
  std::vector<Fd> clients;
  for (int i = 0; i < kRefusalsAtOnce + 3; ++i) {
    auto client = ConnectSeqPacket(folder / "s");
    ASSERT_TRUE(client) << client.error().message;
    clients.push_back(std::move(*client));
  }
  const auto next = [&listener] {
    return Fd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  };
  const auto refused = [&clients] {
    return std::ranges::count_if(clients, [](const Fd& client) { return WaitReadable(client.get(), 0); });
  };
  const std::vector<std::byte> packet(3, std::byte{7});
  EXPECT_TRUE(RefuseWaiting(next, packet)) << "more wait";
  EXPECT_EQ(refused(), kRefusalsAtOnce);
  EXPECT_FALSE(RefuseWaiting(next, packet));
  EXPECT_EQ(refused(), kRefusalsAtOnce + 3);
  for (const Fd& client : clients) {
    const auto got = ReceivePacket(client.get(), 16);
    ASSERT_TRUE(got);
    EXPECT_TRUE(got.value().bytes == packet);
  }
}

}  // namespace
}  // namespace weir::platform
