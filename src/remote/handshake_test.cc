// SPDX-License-Identifier: Apache-2.0
#include "remote/handshake.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "platform/clock.h"
#include "proto/network_frames.h"
#include "tests/harness/tls_pair.h"

namespace weir::remote {
namespace {

struct TwoEnds {
  TwoEnds() {
    testing::SocketPair sockets = testing::ConnectedSockets();
    relay = net::AdoptTcp(std::move(sockets.client));
    portal = net::AdoptTcp(std::move(sockets.server));
  }
  std::unique_ptr<net::Stream> relay, portal;
};

TEST(Handshake, BothEndsReceiveEachOthersHello) {
  TwoEnds ends;
  std::thread node([&] {
    const auto greeting = ReceiveHello(*ends.portal);
    ASSERT_TRUE(greeting) << greeting.error().message;
    EXPECT_EQ(greeting->vgpu, "game");
    EXPECT_EQ(greeting->program, "clinfo");
    EXPECT_EQ(greeting->version, proto::net::kVersion);
    EXPECT_TRUE(SendWelcome(*ends.portal, "game", {.bytes = 1 << 30, .staging = 1 << 20}, platform::NowNs()));
  });
  const auto entry = Enter(*ends.relay, {.vgpu = "game", .program = "clinfo"});
  node.join();
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->vgpu, "game");
  EXPECT_EQ(entry->arena.bytes, 1U << 30);
  EXPECT_EQ(entry->arena.staging, 1U << 20);
  EXPECT_LE(std::abs(entry->ahead_ns), entry->round_trip_ns) << "one clock: the error is at most half of a round trip";
}

// Both texts reach logs and terminals.
TEST(Handshake, TextsOfBothEndsArePrintable) {
  TwoEnds ends;
  std::thread node([&] {
    const auto greeting = ReceiveHello(*ends.portal);
    ASSERT_TRUE(greeting) << greeting.error().message;
    EXPECT_EQ(greeting->program, "?[2Jgame?weir: all is well");
    Refuse(*ends.portal, "no\x1b]0;title\a\nvGPU");
  });
  const auto entry = Enter(*ends.relay, {.vgpu = "game", .program = "\x1b[2Jgame\nweir: all is well"});
  node.join();
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().message, "no?]0;title??vGPU");
}

TEST(Handshake, ImpossibleTimesAreRefused) {
  const std::int64_t later_ns = platform::NowNs() + Duration(seconds(3600)).count();
  for (const std::int64_t came_ns : {later_ns, std::int64_t{-1}}) {  // later than the answer; beyond any clock value
    TwoEnds ends;
    ASSERT_TRUE(SendWelcome(*ends.portal, "game", {.bytes = 1 << 20}, came_ns));
    const auto entry = Enter(*ends.relay, {});
    ASSERT_FALSE(entry);
    EXPECT_EQ(entry.error().code, Errc::kProtocol) << entry.error().message;
  }
}

TEST(Handshake, ARefusalHasTheNodesReason) {
  TwoEnds ends;
  Refuse(*ends.portal, "this node has no vGPU 'game'");
  const auto entry = Enter(*ends.relay, {});
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().code, Errc::kPermissionDenied);
  EXPECT_EQ(entry.error().message, "this node has no vGPU 'game'");
}

TEST(Handshake, OtherDataThanAHelloIsRefused) {
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\nHost: node\r\n\r\n"), std::string(200, '\0'),
                                  std::string("\xff\xff\xff\xff\x01\0\0\0", 8) + std::string(100, 'x')}) {
    TwoEnds ends;
    ASSERT_TRUE(net::SendAll(*ends.relay, std::as_bytes(std::span(text)), seconds(10)));
    const auto greeting = ReceiveHello(*ends.portal);
    ASSERT_FALSE(greeting);
    EXPECT_EQ(greeting.error().code, Errc::kProtocol);
  }
}

/// A peer that sends a byte whenever the other end has waited for a millisecond.
class DrippingPeer final : public net::Stream {
 public:
  explicit DrippingPeer(std::vector<std::byte> says) : says_(std::move(says)) {}
  Result<std::size_t> TrySend(std::span<const iovec>) override { return std::size_t{0}; }
  Result<std::size_t> TryReceive(std::span<std::byte> into) override {
    if (!std::exchange(waited_, false) || at_ == says_.size()) return std::size_t{0};
    into[0] = says_[at_++];
    return std::size_t{1};
  }
  bool AwaitSend(Duration) override { return false; }
  bool AwaitReceive(Duration timeout) override {
    if (timeout <= Duration::zero()) return false;
    std::this_thread::sleep_for(milliseconds(1));
    return waited_ = true;
  }
  void Shutdown() override {}
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] const std::string& peer_name() const override { return name_; }

 private:
  const std::vector<std::byte> says_;
  std::size_t at_ = 0;
  bool waited_ = false;
  const std::string name_ = "a peer";
};

TEST(Handshake, AHelloThatComesByteByByteDoesNotTakeLongerThanAllowed) {
  std::vector<std::byte> frame(proto::net::kFrameHeaderBytes + proto::net::kHandshakeBytesMax);
  const proto::net::FrameHeader header{.bytes = proto::net::kHandshakeBytesMax,
                                       .kind = static_cast<std::uint16_t>(proto::net::Kind::kHello)};
  std::memcpy(frame.data(), &header, sizeof header);
  DrippingPeer peer(frame);
  const auto greeting = ReceiveHello(peer, milliseconds(50));
  ASSERT_FALSE(greeting);
  EXPECT_EQ(greeting.error().code, Errc::kTimeout) << greeting.error().message;
}

TEST(Handshake, ADisconnectionInTheMiddleIsNoticed) {
  TwoEnds ends;
  const std::string text("\x20\0\0\0\x01\0", 6);
  ASSERT_TRUE(net::SendAll(*ends.relay, std::as_bytes(std::span(text)), seconds(10)));
  ends.relay.reset();
  const auto greeting = ReceiveHello(*ends.portal);
  ASSERT_FALSE(greeting);
  EXPECT_EQ(greeting.error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace weir::remote
