// SPDX-License-Identifier: Apache-2.0
#include "net/tcp_stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/harness/code_of.h"
#include "tests/harness/tls_pair.h"

namespace weir::net {
namespace {

using weir::testing::CodeOf;
using weir::testing::kPatience;

int SocketOption(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

TEST(TcpListener, AcceptsConnectionsAndReportsWhenThereAreNone) {
  auto listener = TcpListener::Listen({"127.0.0.1", "0"});
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ(CodeOf(listener->Accept()), Errc::kTimeout);
  const auto connected = ConnectTcp({"127.0.0.1", std::to_string(listener->port())}, kPatience);
  ASSERT_TRUE(connected) << connected.error().message;
  pollfd entry{listener->fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
  EXPECT_TRUE(listener->Accept());
  EXPECT_EQ((*connected)->peer(), "127.0.0.1:" + std::to_string(listener->port()));
}

TEST(TcpListener, OnAllAddressesTakesIpv4AndShowsItAsSuch) {
  auto listener = TcpListener::Listen({"", "0"});
  ASSERT_TRUE(listener) << listener.error().message;
  const std::string port = std::to_string(listener->port());
  const auto connected = ConnectTcp({"127.0.0.1", port}, kPatience);
  ASSERT_TRUE(connected) << connected.error().message;
  const auto accepted = AdoptTcp(weir::testing::AcceptSoon(*listener));
  EXPECT_TRUE(accepted->peer().starts_with("127.0.0.1:")) << accepted->peer();
  EXPECT_TRUE(ConnectTcp({"", port}, kPatience)) << "an empty host is this machine";
  EXPECT_TRUE(ConnectTcp({"localhost", port}, kPatience)) << "each address of the name is tried";
}

TEST(TcpListener, ReportsAPortInUse) {
  auto first = TcpListener::Listen({"127.0.0.1", "0"});
  ASSERT_TRUE(first);
  const auto second = TcpListener::Listen({"127.0.0.1", std::to_string(first->port())});
  ASSERT_EQ(CodeOf(second), Errc::kAlreadyExists);
  EXPECT_NE(second.error().message.find("another program uses that port"), std::string::npos) << second.error().message;
}

TEST(RefusesConnections, IsTrueOnlyWhereAMachineSaysThatNobodyListens) {
  Endpoint at{"127.0.0.1", ""};
  {
    auto listener = TcpListener::Listen({"127.0.0.1", "0"});
    ASSERT_TRUE(listener);
    at.port = std::to_string(listener->port());
    EXPECT_FALSE(RefusesConnections(at, kPatience));
  }
  EXPECT_TRUE(RefusesConnections(at, kPatience));
  const Endpoint unreachable{"255.255.255.255", at.port};
  EXPECT_EQ(CodeOf(ConnectTcp(unreachable, kPatience)), Errc::kUnavailable);
  EXPECT_FALSE(RefusesConnections(unreachable, kPatience));
}

TEST(ConnectTcp, ReportsTheAddressAndWhatToCheck) {
  std::string port;
  {
    auto listener = TcpListener::Listen({"127.0.0.1", "0"});
    ASSERT_TRUE(listener);
    port = std::to_string(listener->port());
  }
  const auto refused = ConnectTcp({"127.0.0.1", port}, kPatience);
  ASSERT_EQ(CodeOf(refused), Errc::kUnavailable);
  EXPECT_NE(refused.error().message.find("127.0.0.1:" + port), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("firewall"), std::string::npos) << refused.error().message;
  const auto unknown = ConnectTcp({"no-such-host.invalid", "7700"}, kPatience);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("no-such-host.invalid:7700"), std::string::npos) << unknown.error().message;
}

TEST(ConnectTcp, GivesUpInTime) {
  // Connection attempts beyond a full backlog get no answer.
  auto listener = TcpListener::Listen({"127.0.0.1", "0"});
  ASSERT_TRUE(listener);
  ASSERT_EQ(::listen(listener->fd(), 0), 0);
  const Endpoint to{"127.0.0.1", std::to_string(listener->port())};
  std::vector<std::unique_ptr<Stream>> taken;
  for (int i = 0; i < 100; ++i) {
    auto stream = ConnectTcp(to, milliseconds(50));
    if (!stream) {
      EXPECT_EQ(CodeOf(stream), Errc::kTimeout) << stream.error().message;
      return;
    }
    taken.push_back(std::move(*stream));
  }
  FAIL() << "a backlog of none took a hundred";
}

TEST(TcpSocket, DetectsAVanishedPeerButNotASlowReader) {
  auto sockets = weir::testing::ConnectedSockets();
  const int fd = sockets.client.get();
  const auto stream = AdoptTcp(std::move(sockets.client));
  EXPECT_EQ(SocketOption(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(SocketOption(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(SocketOption(fd, IPPROTO_TCP, TCP_KEEPIDLE), 10);
  EXPECT_EQ(SocketOption(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
  EXPECT_EQ(SocketOption(fd, IPPROTO_TCP, TCP_KEEPCNT), 2);
  EXPECT_EQ(SocketOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0) << "it would end one whose peer only doesn't read";
}

TEST(TcpStream, SendsFilesToOtherAddressesOnly) {
  auto here = weir::testing::ConnectedSockets(), elsewhere = weir::testing::ConnectedSockets("127.0.0.2");
  auto ipv6 = TcpListener::Listen({"", "0"});
  ASSERT_TRUE(ipv6);
  auto mapped = ConnectSocket({"127.0.0.1", std::to_string(ipv6->port())}, kPatience);
  ASSERT_TRUE(mapped);
  EXPECT_FALSE(AdoptTcp(weir::testing::AcceptSoon(*ipv6))->sends_files()) << "both are IPv4's, written as IPv6's";
  EXPECT_FALSE(AdoptTcp(std::move(*mapped))->sends_files());
  EXPECT_FALSE(AdoptTcp(std::move(here.client))->sends_files());
  EXPECT_FALSE(AdoptTcp(std::move(here.server))->sends_files());
  EXPECT_TRUE(AdoptTcp(std::move(elsewhere.client))->sends_files());
  EXPECT_TRUE(AdoptTcp(std::move(elsewhere.server))->sends_files());
}

}  // namespace
}  // namespace weir::net
