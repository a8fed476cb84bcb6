// SPDX-License-Identifier: Apache-2.0
// Tests of both kinds of stream, and of TLS alone.
#include "net/tls.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "tests/harness/code_of.h"
#include "tests/harness/tls_pair.h"

namespace weir::net {
namespace {

using weir::testing::CodeOf;
using weir::testing::ConnectedSockets;
using weir::testing::kPatience;
using weir::testing::NodeKeys;
using weir::testing::SocketPair;
using weir::testing::StartBoth;
using weir::testing::StreamPair;

std::vector<std::byte> BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> Pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& b : bytes) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// Tests that run on both kinds of stream.
class Streams : public ::testing::TestWithParam<bool> {
 protected:
  Streams() {
    SocketPair sockets = ConnectedSockets();
    if (GetParam()) {
      StreamPair pair = StartBoth(std::move(sockets), keys_.Node(), keys_.Tenant());
      EXPECT_TRUE(pair.server) << pair.server.error().message;
      EXPECT_TRUE(pair.client) << pair.client.error().message;
      server_ = std::move(*pair.server);
      client_ = std::move(*pair.client);
    } else {
      server_ = AdoptTcp(std::move(sockets.server));
      client_ = AdoptTcp(std::move(sockets.client));
    }
  }

  NodeKeys keys_;
  std::unique_ptr<Stream> server_, client_;
};

INSTANTIATE_TEST_SUITE_P(Both, Streams, ::testing::Bool(), [](const auto& kind) { return kind.param ? "Tls" : "Tcp"; });

TEST_P(Streams, CarryMegabytesBothWaysAtOnce) {
  constexpr std::size_t kSize = 5'000'003;
  const auto up = Pattern(kSize, 1), down = Pattern(kSize, 2);
  std::vector<std::byte> got_up(kSize), got_down(kSize);
  const auto good = [](const Status& status) { EXPECT_TRUE(status) << status.error().message; };
  {
    std::jthread a([&] { good(SendAll(*client_, up, kPatience)); });
    std::jthread b([&] { good(SendAll(*server_, down, kPatience)); });
    std::jthread c([&] { good(ReceiveAll(*server_, got_up, kPatience)); });
    good(ReceiveAll(*client_, got_down, kPatience));
  }
  EXPECT_TRUE(up == got_up);
  EXPECT_TRUE(down == got_down);
}

TEST_P(Streams, GatherPartsOfAnySize) {
  const auto bytes = Pattern(3'000'000, 3);
  std::jthread sender([&] {
    // Each send begins where the last one ended and divides the data differently.
    Prng prng(7);
    for (std::size_t at = 0; at < bytes.size();) {
      std::vector<iovec> parts;
      std::size_t end = at;
      for (int i = 0; i < 12 && end < bytes.size(); ++i) {
        const auto wanted = static_cast<std::size_t>(prng.Between(0, prng.Between(0, 1) == 0 ? 200 : 60'000));
        const std::size_t size = std::min(wanted, bytes.size() - end);
        parts.push_back({const_cast<std::byte*>(bytes.data()) + end, size});
        end += size;
      }
      const auto taken = client_->TrySend(parts);
      ASSERT_TRUE(taken) << taken.error().message;
      ASSERT_LE(*taken, end - at);
      at += *taken;
      if (*taken == 0) client_->AwaitSend(kPatience);
    }
  });
  std::vector<std::byte> got(bytes.size());
  const Status status = ReceiveAll(*server_, got, kPatience);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_TRUE(got == bytes);
}

TEST_P(Streams, ReportAnEmptyInputAndAFullOutput) {
  std::byte byte{};
  EXPECT_EQ(*client_->TryReceive({&byte, 1}), 0u);
  EXPECT_FALSE(client_->AwaitReceive(milliseconds(1)));
  const auto block = Pattern(1 << 20, 4);
  const iovec part{const_cast<std::byte*>(block.data()), block.size()};
  std::size_t sent = 0;
  while (const std::size_t taken = *client_->TrySend({&part, 1})) sent += taken;
  EXPECT_FALSE(client_->AwaitSend(milliseconds(1)));
  EXPECT_EQ(CodeOf(SendAll(*client_, block, milliseconds(1))), Errc::kTimeout);
  // The accepted bytes arrive completely.
  std::vector<std::byte> got(sent);
  const Status status = ReceiveAll(*server_, got, kPatience);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_TRUE(client_->AwaitSend(kPatience));
}

TEST_P(Streams, ReturnBufferedDataWithoutWaiting) {
  const auto bytes = Pattern(100, 5);
  ASSERT_TRUE(SendAll(*client_, bytes, kPatience));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_TRUE(server_->AwaitReceive(kPatience));
    std::byte byte{};
    ASSERT_EQ(*server_->TryReceive({&byte, 1}), 1u);
    EXPECT_EQ(byte, bytes[i]);
  }
  EXPECT_FALSE(server_->AwaitReceive(milliseconds(1)));
}

TEST_P(Streams, ShutdownEndsBothWaitsAndAllThatFollows) {
  const auto block = Pattern(1 << 20, 6);
  const iovec part{const_cast<std::byte*>(block.data()), block.size()};
  while (*client_->TrySend({&part, 1}) > 0) {
  }
  std::atomic<int> waiting{0}, woken{0};
  std::jthread sends([&] { ++waiting, woken += client_->AwaitSend(kPatience * 10) ? 1 : 0; });
  std::jthread receives([&] { ++waiting, woken += client_->AwaitReceive(kPatience * 10) ? 1 : 0; });
  ASSERT_TRUE(weir::testing::WaitUntil([&] { return waiting == 2; }));
  client_->Shutdown();
  EXPECT_TRUE(weir::testing::WaitUntil([&] { return woken == 2; }));
  std::byte byte{};
  EXPECT_EQ(CodeOf(client_->TrySend({&part, 1})), Errc::kUnavailable);
  EXPECT_EQ(CodeOf(client_->TryReceive({&byte, 1})), Errc::kUnavailable);
  EXPECT_TRUE(client_->AwaitSend(kPatience)) << "a wait that comes later ends at once";
  EXPECT_TRUE(client_->AwaitReceive(kPatience));
}

TEST_P(Streams, DataSentBeforeTheEndArrivesFirst) {
  const auto bytes = Pattern(50'000, 8);
  ASSERT_TRUE(SendAll(*client_, bytes, kPatience));
  client_->Shutdown();
  std::vector<std::byte> got(bytes.size());
  ASSERT_TRUE(ReceiveAll(*server_, got, kPatience));
  EXPECT_TRUE(got == bytes);
  std::byte byte{};
  const Status end = ReceiveAll(*server_, {&byte, 1}, kPatience);
  ASSERT_EQ(CodeOf(end), Errc::kUnavailable);
  EXPECT_NE(end.error().message.find("closed by the other side"), std::string::npos) << end.error().message;
}

TEST_P(Streams, APeerThatDisconnectsWhileSendingIsAnErrorWithoutASignal) {
  const auto block = Pattern(1 << 20, 9);
  const iovec part{const_cast<std::byte*>(block.data()), block.size()};
  while (*client_->TrySend({&part, 1}) > 0) {
  }
  server_.reset();
  Status sent = Ok();
  while (sent) sent = SendAll(*client_, block, kPatience);
  EXPECT_EQ(CodeOf(sent), Errc::kUnavailable) << sent.error().message;
  EXPECT_EQ(CodeOf(client_->TrySend({&part, 1})), Errc::kUnavailable);
}

TEST_P(Streams, ReportThePeersIdentity) {
  EXPECT_TRUE(client_->peer().starts_with("127.0.0.1:")) << client_->peer();
  EXPECT_EQ(client_->peer_name(), GetParam() ? "lab" : "");
  EXPECT_EQ(server_->peer_name(), GetParam() ? "render" : "");
}

/// A connection between two sockets that records the traffic, as an eavesdropper does.
class TappedWire {
 public:
  TappedWire() : left_(ConnectedSockets()), right_(ConnectedSockets()), thread_([this] { Carry(); }) {}
  ~TappedWire() {
    ::shutdown(left_.server.get(), SHUT_RDWR);
    ::shutdown(right_.client.get(), SHUT_RDWR);
    thread_.join();
  }
  TappedWire(const TappedWire&) = delete;
  TappedWire& operator=(const TappedWire&) = delete;

  SocketPair TakeEnds() { return {std::move(right_.server), std::move(left_.client)}; }
  std::string FromClient() {
    const std::lock_guard lock(mutex_);
    return from_client_;
  }
  std::string FromServer() {
    const std::lock_guard lock(mutex_);
    return from_server_;
  }
  /// Alters every byte to the server from now on.
  void Damage() { damages_ = true; }

 private:
  void Carry() {
    std::array<pollfd, 2> ends{pollfd{left_.server.get(), POLLIN, 0}, pollfd{right_.client.get(), POLLIN, 0}};
    while (::poll(ends.data(), ends.size(), -1) > 0) {
      for (std::size_t i = 0; i < ends.size(); ++i) {
        if (ends[i].revents == 0) continue;
        char bytes[65536];
        const ssize_t came = ::recv(ends[i].fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (came <= 0) return;
        {
          const std::lock_guard lock(mutex_);
          (i == 0 ? from_client_ : from_server_).append(bytes, static_cast<std::size_t>(came));
        }
        if (damages_ && i == 0)
          for (ssize_t b = 0; b < came; ++b) bytes[b] = static_cast<char>(bytes[b] ^ 1);
        if (!PassOn(ends[1 - i].fd, bytes, static_cast<std::size_t>(came))) return;
      }
    }
  }
  static bool PassOn(int fd, const char* bytes, std::size_t size) {
    while (size > 0) {
      const ssize_t sent = ::send(fd, bytes, size, MSG_NOSIGNAL);
      if (sent > 0) {
        bytes += sent;
        size -= static_cast<std::size_t>(sent);
        continue;
      }
      if (errno != EAGAIN) return false;
      pollfd entry{fd, POLLOUT, 0};
      if (::poll(&entry, 1, -1) < 0) return false;
    }
    return true;
  }

  SocketPair left_, right_;
  std::mutex mutex_;
  std::string from_client_, from_server_;
  std::atomic<bool> damages_{false};
  std::thread thread_;
};

TEST(Tls, AnEavesdropperSeesNeitherBytesNorNames) {
  const NodeKeys keys;
  TappedWire wire;
  StreamPair pair = StartBoth(wire.TakeEnds(), keys.Node(), keys.Tenant("render"));
  ASSERT_TRUE(pair.server && pair.client);
  const auto secret = BytesOf("the contents of a buffer, of some length");
  ASSERT_TRUE(SendAll(**pair.client, secret, kPatience));
  std::vector<std::byte> got(secret.size());
  ASSERT_TRUE(ReceiveAll(**pair.server, got, kPatience));
  EXPECT_TRUE(got == secret);
  ASSERT_TRUE(SendAll(**pair.server, secret, kPatience));
  ASSERT_TRUE(ReceiveAll(**pair.client, got, kPatience));
  for (const std::string& seen : {wire.FromClient(), wire.FromServer()}) {
    EXPECT_GT(seen.size(), 300u);
    for (const char* text : {"the contents", "of some length", "render", "Weir"})
      EXPECT_EQ(seen.find(text), std::string::npos) << text;
  }
}

TEST(Tls, AReplayedHandshakeIsRefused) {
  const NodeKeys keys;
  std::string recorded;
  {
    TappedWire wire;
    StreamPair pair = StartBoth(wire.TakeEnds(), keys.Node(), keys.Tenant());
    ASSERT_TRUE(pair.server && pair.client);
    ASSERT_TRUE(SendAll(**pair.client, BytesOf("run this"), kPatience));
    std::vector<std::byte> got(8);
    ASSERT_TRUE(ReceiveAll(**pair.server, got, kPatience));
    recorded = wire.FromClient();
  }
  SocketPair sockets = ConnectedSockets();
  ASSERT_EQ(::send(sockets.client.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(recorded.size()));
  ::shutdown(sockets.client.get(), SHUT_WR);
  const auto refused = StartTls(std::move(sockets.server), keys.Node(), Role::kServer, kPatience);
  EXPECT_EQ(CodeOf(refused), Errc::kProtocol);
}

TEST(Tls, BytesThatWereChangedOnTheWayEndTheConnection) {
  const NodeKeys keys;
  TappedWire wire;
  StreamPair pair = StartBoth(wire.TakeEnds(), keys.Node(), keys.Tenant());
  ASSERT_TRUE(pair.server && pair.client);
  wire.Damage();
  ASSERT_TRUE(SendAll(**pair.client, BytesOf("a message"), kPatience));
  std::vector<std::byte> got(9);
  EXPECT_EQ(CodeOf(ReceiveAll(**pair.server, got, kPatience)), Errc::kUnavailable);
  EXPECT_TRUE(std::ranges::all_of(got, [](std::byte b) { return b == std::byte{}; }));
}

TEST(Tls, AnUnauthenticatedEndIsAnError) {
  const NodeKeys keys;
  auto wire = std::make_unique<TappedWire>();
  StreamPair pair = StartBoth(wire->TakeEnds(), keys.Node(), keys.Tenant());
  ASSERT_TRUE(pair.server && pair.client);
  wire.reset();
  std::byte byte{};
  const Status end = ReceiveAll(**pair.server, {&byte, 1}, kPatience);
  ASSERT_EQ(CodeOf(end), Errc::kUnavailable);
  EXPECT_NE(end.error().message.find("was cut"), std::string::npos) << end.error().message;
}

TEST(Tls, ManyTenantsShareOneIdentityOfTheNode) {
  const NodeKeys keys;
  const TlsIdentity node = keys.Node();
  std::vector<std::string> files;
  for (const char* vgpu : {"a", "b", "c", "d"}) files.push_back(keys.TokenFile(vgpu));
  std::vector<std::jthread> threads;
  for (const std::string& file : files)
    threads.emplace_back([&, file] {
      for (int i = 0; i < 3; ++i) {
        StreamPair pair = StartBoth(ConnectedSockets(), node, NodeKeys::TenantOf(file));
        ASSERT_TRUE(pair.server) << pair.server.error().message;
        ASSERT_TRUE(pair.client) << pair.client.error().message;
        EXPECT_NE(file.find("/" + (*pair.server)->peer_name() + ".token"), std::string::npos);
      }
    });
}

}  // namespace
}  // namespace weir::net
