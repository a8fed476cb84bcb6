// SPDX-License-Identifier: Apache-2.0
// Requests over TLS: the server, the client and the tunnels between them.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "http/client.h"
#include "http/tls/client.h"
#include "http/tls/server.h"
#include "http/tls/tunnel.h"
#include "platform/clock.h"
#include "tests/harness/tls_pair.h"

namespace weir::http::tls {
namespace {

using net::Admits;
using net::TokenRole;
using weir::testing::kPatience;
using weir::testing::NodeKeys;

/// Echoes the body of a request and says who sent it.
class EchoService {
 public:
  explicit EchoService(const NodeKeys& keys, net::Door::Limits connections = {}) {
    const auto identity = net::TlsIdentity::OfNode(keys.dir(), {}, Admits::kCluster);
    EXPECT_TRUE(identity);
    auto server = Server::Listen(
        loop_, {"127.0.0.1", "0"}, *identity, {.connections = connections, .requests = {.request_bytes = 8U << 20}},
        [](const Request& request, const Respond& respond) {
          respond({.status = 200,
                   .content_type = "text/plain",
                   .body = request.holder.role + ":" + request.holder.name + "\n" + request.body});
        });
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~EchoService() {
    server_.reset();
    work_.reset();
    loop_.stop();
    thread_.join();
  }
  EchoService(const EchoService&) = delete;
  EchoService& operator=(const EchoService&) = delete;
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  void End() { server_.reset(); }

 private:
  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{loop_.get_executor()};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

Access AccessAs(const NodeKeys& keys, TokenRole role, const std::string& name) {
  const auto token = net::MakeToken(keys.dir(), name, net::kDay, role);
  EXPECT_TRUE(token);
  auto access = ReadAccess(keys.File(name + ".token", token->text));
  EXPECT_TRUE(access) << access.error().message;
  return *access;
}

Call Put(std::string body) { return {.method = "PUT", .target = "/echo", .body = std::move(body)}; }

TEST(TlsHttp, ARequestHasTheRoleAndTheNameOfItsToken) {
  const NodeKeys keys;
  const EchoService service(keys);
  for (const auto& [role, name] :
       {std::pair{TokenRole::kOperator, "chief"}, {TokenRole::kTenant, "lab"}, {TokenRole::kNode, "gpu1"}}) {
    const auto answer = Ask("127.0.0.1", service.port(), AccessAs(keys, role, name), Put("x"), kPatience);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, std::string(net::NameOf(role)) + ":" + name + "\nx");
  }
}

TEST(TlsHttp, LargeBodiesArriveWhole) {
  const NodeKeys keys;
  const EchoService service(keys);
  const Access access = AccessAs(keys, TokenRole::kTenant, "lab");
  std::string body(5'000'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2'654'435'761U >> 24);
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      const auto answer = Ask("127.0.0.1", service.port(), access, Put(body), kPatience);
      ASSERT_TRUE(answer) << answer.error().message;
      EXPECT_TRUE(answer->body == "tenant:lab\n" + body);
    });
  for (std::thread& client : clients) client.join();
}

TEST(TlsHttp, OtherTokensAndNoTokenAreRefused) {
  const NodeKeys keys, others;
  const EchoService service(keys);
  const auto refused = [&](const Access& access) {
    const auto answer = Ask("127.0.0.1", service.port(), access, Put("x"), kPatience);
    return answer ? "let in" : std::string(NameOf(answer.error().code)) + ": " + answer.error().message;
  };
  EXPECT_EQ(refused(AccessAs(keys, TokenRole::kVgpu, "render")).find("permission-denied: the node refused the token"),
            0U)
      << "a vGPU's token gives access to no manager";
  EXPECT_EQ(refused(AccessAs(others, TokenRole::kOperator, "chief")).find("permission-denied"), 0U);
  const Access lab = AccessAs(keys, TokenRole::kTenant, "lab");
  EXPECT_EQ(refused(lab), "let in");
  ASSERT_TRUE(net::Revoke(keys.dir(), "tenant:lab"));
  EXPECT_NE(refused(lab).find("it was revoked"), std::string::npos) << refused(lab);
  // In the clear, with a secret.
  EXPECT_NE(refused(Access{.bearer = "0123456789abcdef"}), "let in");
}

TEST(TlsHttp, AManagersTokenGivesNoVgpu) {
  const NodeKeys keys;
  const auto token = net::MakeToken(keys.dir(), "render", net::kDay, TokenRole::kOperator);
  ASSERT_TRUE(token);
  const auto pair = weir::testing::StartBoth(weir::testing::ConnectedSockets(), keys.Node(),
                                             NodeKeys::TenantOf(keys.File("chief.token", token->text)));
  ASSERT_FALSE(pair.server);
  EXPECT_NE(pair.server.error().message.find("not a vGPU's token"), std::string::npos) << pair.server.error().message;
}

TEST(TlsHttp, AServiceThatEndsEndsItsConnections) {
  const NodeKeys keys;
  EchoService service(keys);
  const std::uint16_t port = service.port();
  const Access access = AccessAs(keys, TokenRole::kTenant, "lab");
  auto connected = net::ConnectSocket({"127.0.0.1", std::to_string(port)}, kPatience);
  ASSERT_TRUE(connected);
  const auto stream = net::StartTls(std::move(*connected), *access.identity, net::Role::kClient, kPatience);
  ASSERT_TRUE(stream);
  service.End();  // waits for the connection's thread
  std::byte byte{};
  EXPECT_TRUE((*stream)->AwaitReceive(kPatience));
  EXPECT_FALSE((*stream)->TryReceive(std::span(&byte, 1)));
  EXPECT_FALSE(Ask("127.0.0.1", port, access, Put("x"), milliseconds(500)));
}

TEST(TlsHttp, OneNameDoesNotTakeTheOthersPlaces) {
  const NodeKeys keys;
  const EchoService service(keys, {.of_one_name = 2, .waiting_of_one_name = 2});
  const Access lab = AccessAs(keys, TokenRole::kTenant, "lab");
  const auto hold = [&] {
    auto connected = net::ConnectSocket({"127.0.0.1", std::to_string(service.port())}, kPatience);
    EXPECT_TRUE(connected);
    return net::StartTls(std::move(*connected), *lab.identity, net::Role::kClient, kPatience);
  };
  const auto first = hold(), second = hold();
  ASSERT_TRUE(first && second);
  const auto refused = Ask("127.0.0.1", service.port(), lab, Put("x"), kPatience);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnavailable) << refused.error().message;
  EXPECT_TRUE(Ask("127.0.0.1", service.port(), AccessAs(keys, TokenRole::kTenant, "lab2"), Put("x"), kPatience));
}

TEST(TlsHttp, AServerThatDoesNotReadOrAnswerIsATimeout) {
  const NodeKeys keys;
  const Access access = AccessAs(keys, TokenRole::kTenant, "lab");
  const auto identity = net::TlsIdentity::OfNode(keys.dir(), {}, Admits::kCluster);
  auto listener = net::TcpListener::Listen({"127.0.0.1", "0"});
  ASSERT_TRUE(identity && listener);
  std::unique_ptr<net::Stream> silent;
  std::thread server([&] {
    auto stream = net::StartTls(weir::testing::AcceptSoon(*listener), *identity, net::Role::kServer, kPatience);
    if (stream) silent = std::move(*stream);
  });
  const auto answer = Ask("127.0.0.1", listener->port(), access, Put(std::string(50'000'000, 'x')), milliseconds(500));
  server.join();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::kTimeout) << answer.error().message;
  EXPECT_TRUE(silent);
}

TEST(TlsHttp, AClientThatVanishesEndsItsTunnel) {
  const NodeKeys keys;
  const EchoService service(keys);
  const Access access = AccessAs(keys, TokenRole::kTenant, "lab");
  for (int i = 0; i < 3; ++i) {
    auto connected = net::ConnectSocket({"127.0.0.1", std::to_string(service.port())}, kPatience);
    ASSERT_TRUE(connected);
    const auto stream = net::StartTls(std::move(*connected), *access.identity, net::Role::kClient, kPatience);
    ASSERT_TRUE(stream);
    const std::string half = "PUT /echo HTTP/1.1\r\nHost: weir\r\nContent-Length: 100\r\n\r\nhalf";
    ASSERT_TRUE(net::SendAll(**stream, std::as_bytes(std::span(half)), kPatience));
  }
  EXPECT_TRUE(Ask("127.0.0.1", service.port(), access, Put("x"), kPatience));
}

/// A stream whose other side reads nothing.
class UnreadStream final : public net::Stream {
 public:
  UnreadStream() {
    auto pair = MakeSocketPair();
    EXPECT_TRUE(pair);
    ends_ = std::move(*pair);
    const std::vector<char> bytes(1 << 16);
    while (::send(ends_.here.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }
  Result<std::size_t> TrySend(std::span<const iovec>) override { return ++sends_, std::size_t{0}; }
  Result<std::size_t> TryReceive(std::span<std::byte>) override { return std::size_t{0}; }
  bool AwaitSend(Duration) override { return false; }
  bool AwaitReceive(Duration) override { return false; }
  void Shutdown() override {}
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] const std::string& peer_name() const override { return name_; }
  [[nodiscard]] int fd() const override { return ends_.here.get(); }
  [[nodiscard]] int sends() const { return sends_; }

 private:
  SocketPair ends_;
  const std::string name_ = "the other side";
  int sends_ = 0;
};

TEST(Tunnel, EndsWhenTheOtherSideDoesNotReadAndWaitsIdlyUntilThen) {
  UnreadStream stream;
  auto pair = MakeSocketPair();
  ASSERT_TRUE(pair);
  ASSERT_EQ(::send(pair->here.get(), "reply", 5, 0), 5);
  pair->here.Reset();  // the server has written its last reply
  RunTunnel(stream, pair->there, milliseconds(200));
  EXPECT_GT(stream.sends(), 0);
  EXPECT_LT(stream.sends(), 100);
}

TEST(ReadAccess, ATokensFileMustBePrivateAndWhole) {
  const weir::testing::TempFolder folder;
  const std::string path = folder / "token";
  std::ofstream(path) << "0123456789abcdef\nmore\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  EXPECT_EQ(ReadAccess(path).error().code, Errc::kPermissionDenied);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  EXPECT_EQ(ReadAccess(path).value().bearer, "0123456789abcdef");
  EXPECT_FALSE(ReadAccess(path).value().identity);
  std::ofstream(path) << "short\n";
  EXPECT_EQ(ReadAccess(path).error().code, Errc::kInvalidArgument);
  std::ofstream(path) << "-----BEGIN CERTIFICATE-----\n";
  EXPECT_EQ(ReadAccess(path).error().code, Errc::kProtocol);
  EXPECT_EQ(ReadAccess(folder / "none").error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace weir::http::tls
