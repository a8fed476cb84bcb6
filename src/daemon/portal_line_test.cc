// SPDX-License-Identifier: Apache-2.0
#include "daemon/portal_line.h"

#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "platform/clock.h"
#include "platform/unix_socket.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

class PortalLineTest : public ::testing::Test {
 protected:
  PortalLineTest() {
    auto listening = PortalLine::Listen(loop_, folder_ / proto::kPortalsSocket,
                                        [this](const engine::Note& note) { noted_.push_back(note.kind); });
    EXPECT_TRUE(listening);
    line_ = std::move(*listening);
  }
  void RunUntil(const std::function<bool()>& holds) {
    for (const Instant until = platform::Now() + seconds(20); !holds() && platform::Now() < until;) {
      loop_.restart();
      loop_.run_for(milliseconds(5));
    }
    EXPECT_TRUE(holds());
  }
  [[nodiscard]] platform::Fd Connect() const {
    auto connected = platform::ConnectSeqPacket(folder_ / proto::kPortalsSocket);
    EXPECT_TRUE(connected);
    return std::move(*connected);
  }
  /// The next packet. Empty: the daemon has closed the connection.
  std::string Heard(const platform::Fd& portal) {
    RunUntil([&] { return platform::WaitReadable(portal.get(), 0); });
    const auto packet = platform::ReceivePacket(portal.get(), proto::kDrainListBytesMax);
    return packet ? std::string(reinterpret_cast<const char*>(packet->bytes.data()), packet->bytes.size()) : "nothing";
  }
  static void Say(const platform::Fd& portal, const std::string& text) {
    EXPECT_TRUE(platform::SendPacket(portal.get(), std::as_bytes(std::span(text))));
  }
  testing::TempFolder folder_;
  boost::asio::io_context loop_{1};
  std::vector<std::string> noted_;
  std::unique_ptr<PortalLine> line_;
};

using Kinds = std::vector<std::string>;

TEST_F(PortalLineTest, PortalsReceiveDrainRequestsAndReportResults) {
  const platform::Fd early = Connect();
  EXPECT_EQ(Heard(early), "leave\n");
  line_->Ask("game", "full");
  EXPECT_EQ(Heard(early), "leave\ngame full\n");
  platform::Fd late = Connect();
  EXPECT_EQ(Heard(late), "leave\ngame full\n");
  Say(late, "here\ngame 2 2\n");
  RunUntil([&] { return noted_ == Kinds{"asked"}; });
  late.Reset();  // its connections end with it
  RunUntil([&] { return noted_ == Kinds{"asked", "left"}; });
  line_->TakeBack("game");
  EXPECT_EQ(Heard(early), "leave\n");
}

TEST_F(PortalLineTest, AMalformedMessageEndsThePortalsConnection) {
  const platform::Fd good = Connect();
  EXPECT_EQ(Heard(good), "leave\n");
  for (const std::string& text : {std::string("leave\ngame x\n"), std::string(proto::kDrainListBytesMax + 1, 'x')}) {
    const platform::Fd bad = Connect();
    EXPECT_EQ(Heard(bad), "leave\n");
    Say(bad, text);
    EXPECT_EQ(Heard(bad), "") << "it is hung up on";
  }
  line_->Ask("game", "full");
  EXPECT_EQ(Heard(good), "leave\ngame full\n");
  EXPECT_EQ(noted_, Kinds{});
}

}  // namespace
}  // namespace weir::daemon
