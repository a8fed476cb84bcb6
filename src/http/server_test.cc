// SPDX-License-Identifier: Apache-2.0
// The server and the client with each other, over Unix and TCP sockets.
#include "http/server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "http/client.h"
#include "platform/unix_socket.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::http {
namespace {

constexpr Duration kLong = seconds(20);

/// A server with `handler` on both kinds of socket, in a separate thread.
class ServerTest : public ::testing::Test {
 protected:
  void Serve(Handler handler, Limits limits = {}) {
    auto by_path = Server::ListenUnix(loop_, path_, limits, handler);
    auto by_port = Server::ListenTcp(loop_, "127.0.0.1", 0, limits, handler);
    ASSERT_TRUE(by_path) << by_path.error().message;
    ASSERT_TRUE(by_port) << by_port.error().message;
    unix_ = std::move(*by_path);
    tcp_ = std::move(*by_port);
    port_ = tcp_->port();
    ASSERT_NE(port_, 0);
    EXPECT_EQ(unix_->port(), 0);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServerTest() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }
  Result<Answer> AskPath(const Call& call, Duration timeout = kLong) { return AskUnix(path_, call, timeout); }
  Result<Answer> AskPort(const Call& call, Duration timeout = kLong) {
    return AskTcp("localhost", port_, call, timeout);
  }

  testing::TempFolder folder_;
  const std::string path_ = folder_ / "s";
  boost::asio::io_context loop_{1};
  std::uint16_t port_ = 0;
  std::unique_ptr<Server> unix_, tcp_;
  Respond held_;  // used by the loop's thread only
  std::atomic<bool> holds_ = false;
  std::thread thread_;
};

TEST_F(ServerTest, PassesTheRequestToTheHandlerAndItsReplyToTheClient) {
  std::vector<Request> seen;
  Serve([&](const Request& request, const Respond& respond) {
    seen.push_back(request);
    respond({201, "text/plain", "said: " + request.body});
  });
  const Call call{.method = "PUT", .target = "/a/b?c=d", .body = "x", .bearer = "secret"};
  for (const bool over_tcp : {false, true}) {
    const auto answer = over_tcp ? AskPort(call) : AskPath(call);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->status, 201U);
    EXPECT_EQ(answer->body, "said: x");
  }
  ASSERT_EQ(seen.size(), 2U);
  for (const Request& request : seen) {
    EXPECT_EQ(request.method, "PUT");
    EXPECT_EQ(request.path, "/a/b");
    EXPECT_EQ(request.query, "c=d");
    EXPECT_EQ(request.bearer, "secret");
  }
  EXPECT_EQ(seen[0].peer_pid, ::getpid());
  EXPECT_EQ(seen[0].peer_uid, ::getuid());
  EXPECT_EQ(seen[1].peer_pid, 0);
}

TEST_F(ServerTest, ServesOthersWhileAReplyIsPending) {
  Serve([this](const Request& request, const Respond& respond) {
    if (request.path == "/wait") {
      held_ = respond;
      holds_ = true;
      return;
    }
    respond({200, "text/plain", "now"});
    held_({200, "text/plain", "later"});
  });
  std::thread waiting([&] {
    const auto answer = AskPort({"GET", "/wait"});
    EXPECT_TRUE(answer && answer->body == "later");
  });
  ASSERT_TRUE(testing::WaitUntil([this] { return holds_.load(); }));
  const auto answer = AskPath({"GET", "/now"});
  EXPECT_TRUE(answer && answer->body == "now");
  waiting.join();
}

TEST_F(ServerTest, AnAbandonedRequestIsAnError) {
  Serve([](const Request&, const Respond&) {});
  const auto answer = AskPath({"GET", "/"});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 500U);
}

TEST_F(ServerTest, AReplyToADisconnectedClientIsHarmless) {
  Serve([this](const Request& request, const Respond& respond) {
    if (request.path == "/late") {
      held_ = respond;
      return;
    }
    held_({200, "text/plain", "too late"});
    respond({});
  });
  EXPECT_EQ(testing::CodeOf(AskPath({"GET", "/late"}, milliseconds(50))), Errc::kTimeout);
  EXPECT_TRUE(AskPath({"GET", "/now"}));
  EXPECT_TRUE(AskPath({"GET", "/again"}));
}

TEST_F(ServerTest, RefusesABodyOverItsLimit) {
  Serve([](const Request&, const Respond& respond) { respond({}); }, {.request_bytes = 1000});
  const auto in = AskPort({"PUT", "/", std::string(1000, 'x')});
  ASSERT_TRUE(in) << in.error().message;
  EXPECT_EQ(in->status, 200U);
  const auto over = AskPort({"PUT", "/", std::string(1001, 'x')});
  ASSERT_TRUE(over) << over.error().message;
  EXPECT_EQ(over->status, 400U);
}

TEST_F(ServerTest, BeyondItsConnectionsOthersStayServed) {
  Serve(
      [this](const Request&, const Respond& respond) {
        held_ = respond;
        holds_ = true;
      },
      {.connections = 1});
  std::thread first([&] {
    const auto answer = AskPath({"GET", "/"});
    EXPECT_TRUE(answer && answer->body == "freed");
  });
  ASSERT_TRUE(testing::WaitUntil([this] { return holds_.load(); }));
  EXPECT_EQ(testing::CodeOf(AskPath({"GET", "/"})), Errc::kUnavailable);
  boost::asio::post(loop_, [this] { held_({200, "text/plain", "freed"}); });
  first.join();
}

TEST_F(ServerTest, AnswersNonHttpWithAnErrorAndContinues) {
  Serve([](const Request&, const Respond& respond) { respond({}); });
  const auto bad = AskPath({"GET", "no slash\r\nHTTP"});
  ASSERT_TRUE(bad) << bad.error().message;
  EXPECT_EQ(bad->status, 400U);
  EXPECT_TRUE(AskPath({"GET", "/"}));
}

TEST_F(ServerTest, SaysWhyItCannotListen) {
  Serve([](const Request&, const Respond& respond) { respond({}); });
  const auto handler = [](const Request&, const Respond&) {};
  EXPECT_EQ(testing::CodeOf(Server::ListenTcp(loop_, "127.0.0.1", port_, {}, handler)), Errc::kBusy);
  EXPECT_EQ(testing::CodeOf(Server::ListenTcp(loop_, "no such host", 0, {}, handler)), Errc::kInvalidArgument);
  EXPECT_EQ(testing::CodeOf(Server::ListenUnix(loop_, "/" + std::string(200, 'x'), {}, handler)),
            Errc::kInvalidArgument);
  EXPECT_EQ(testing::CodeOf(Server::ListenUnix(loop_, "/nowhere/at/all", {}, handler)), Errc::kIo);
}

TEST_F(ServerTest, ARefusedRequestIsAnsweredBeforeItsBodyIsRead) {
  Limits limits;
  limits.refuse = [](const Request& head) -> std::optional<Reply> {
    if (head.bearer == "secret") return std::nullopt;
    return Reply{403, "text/plain", "no"};
  };
  Serve([](const Request& request, const Respond& respond) { respond({200, "text/plain", request.body}); }, limits);
  const auto admitted = AskPort({.method = "PUT", .target = "/a", .body = "x", .bearer = "secret"});
  ASSERT_TRUE(admitted) << admitted.error().message;
  EXPECT_EQ(admitted->body, "x");

  // A head announces a body that never comes: the answer must not wait for it.
  auto connection = platform::ConnectUnixStream(path_);
  ASSERT_TRUE(connection) << connection.error().message;
  const std::string head = "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n";
  ASSERT_EQ(::send(connection->get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
  ASSERT_TRUE(platform::WaitReadable(connection->get(), 20'000));
  char answer[64]{};
  ASSERT_GT(::recv(connection->get(), answer, sizeof answer - 1, 0), 0);
  EXPECT_EQ(std::string(answer).substr(0, 12), "HTTP/1.1 403");
}

TEST_F(ServerTest, AThrowingHandlerFailsOnlyItsRequest) {
  Serve([](const Request& request, const Respond& respond) {
    if (request.path == "/throw") throw std::runtime_error("of a library");
    respond({200, "text/plain", "fine"});
  });
  EXPECT_EQ(AskPath({"GET", "/throw"})->status, 500U);
  EXPECT_EQ(AskPath({"GET", "/"})->body, "fine");
}

TEST_F(ServerTest, OneAddressCannotTakeAllConnections) {
  Limits limits;
  limits.connections_per_address = 2;
  Serve(
      [this](const Request& request, const Respond& respond) {
        if (request.path == "/hold") {
          held_ = respond;
          holds_ = true;
          return;
        }
        respond({200, "text/plain", "fine"});
      },
      limits);
  std::vector<platform::Fd> silent;
  for (int i = 0; i < 2; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(port_), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  EXPECT_FALSE(AskPort({"GET", "/"})) << "a third from this address is closed";
  EXPECT_TRUE(AskPath({"GET", "/"})) << "others are served";
  silent.clear();
  EXPECT_TRUE(testing::WaitUntil([this] { return AskPort({"GET", "/"}).has_value(); }));
}

}  // namespace
}  // namespace weir::http
