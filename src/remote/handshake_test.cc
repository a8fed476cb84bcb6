// SPDX-License-Identifier: Apache-2.0
#include "remote/handshake.h"

#include <gtest/gtest.h>

#include <thread>

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
