// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "platform/unix_socket.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

class ExecutorHostTest : public ::testing::Test {
 protected:
  ExecutorHostTest() {
    auto host = ExecutorHost::Listen(loop_, folder_ / "a.sock", setup_, users_, {.vgpu = "a", .attach = ""});
    EXPECT_TRUE(host);
    host_ = std::move(*host);
  }
  void Connect(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto client = platform::ConnectSeqPacket(host_->path());
      ASSERT_TRUE(client) << client.error().message;
      clients_.push_back(std::move(*client));
    }
  }
  [[nodiscard]] std::ptrdiff_t Refused() const {
    return std::ranges::count_if(clients_,
                                 [](const platform::Fd& client) { return platform::WaitReadable(client.get(), 0); });
  }

  testing::TempFolder folder_;
  boost::asio::io_context loop_{1};
  const ExecutorSetup setup_;  // without a program
  ExecutorUsers users_{loop_, folder_.path(), {}};
  std::unique_ptr<ExecutorHost> host_;
  std::vector<platform::Fd> clients_;
};

TEST_F(ExecutorHostTest, ManyClientsAreRefusedInPortionsSoThatTheLoopDoesOtherWorkInBetween) {
  Connect(100);
  while (Refused() == 0) loop_.run_one();
  EXPECT_EQ(Refused(), 32);
  while (Refused() < 100) loop_.run_one();
}

}  // namespace
}  // namespace weir::daemon
