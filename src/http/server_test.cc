// SPDX-License-Identifier: Apache-2.0
// The server and the client with each other, over Unix and TCP sockets.
#include "http/server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "http/client.h"
#include "http/event_stream.h"
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

TEST_F(ServerTest, ManyConnectionsAreAcceptedInPortionsSoThatTheLoopDoesOtherWorkInBetween) {
  auto listening = Server::ListenUnix(loop_, path_, {.connections = 0}, [](const Request&, const Respond&) {});
  ASSERT_TRUE(listening);
  std::vector<platform::Fd> clients;
  for (int i = 0; i < 100; ++i) {
    auto client = platform::ConnectUnixStream(path_);
    ASSERT_TRUE(client);
    clients.push_back(std::move(*client));
  }
  const auto closed = [&] {
    return std::ranges::count_if(clients, [](const platform::Fd& one) { return platform::WaitReadable(one.get(), 0); });
  };
  while (closed() == 0) loop_.run_one();
  EXPECT_EQ(closed(), 32);
  while (closed() < 100) loop_.run_one();
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

/// Reads from a connection until `text` is there, or the server has closed it. Returns what was read.
std::string ReadUntil(int fd, std::string_view text) {
  std::string read;
  while (text.empty() || read.find(text) == std::string::npos) {
    char part[65'536];
    if (!platform::WaitReadable(fd, 20'000)) return read + "(nothing more came)";
    const ssize_t got = ::recv(fd, part, sizeof part, 0);
    if (got <= 0) break;
    read.append(part, static_cast<std::size_t>(got));
  }
  return read;
}

/// The server's reply to these bytes, until it closes the connection.
std::string Say(const std::string& path, std::string_view said) {
  auto connection = platform::ConnectUnixStream(path);
  if (!connection) return connection.error().message;
  if (::send(connection->get(), said.data(), said.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(said.size())) return {};
  return ReadUntil(connection->get(), "");
}

// Otherwise many connections, each with a body that is about to end, take the machine's memory.
TEST_F(ServerTest, LargeBodiesThatAreOnTheirWayAreBoundedTogether) {
  constexpr std::size_t kLarge = 2 * kLargeBody;
  Serve(
      [](const Request& request, const Respond& respond) {
        respond({200, "text/plain", request.body.substr(0, 1)});
      },
      {.request_bytes = 4 * kLarge, .large_bytes = 3 * kLarge, .large_bytes_of_one = 2 * kLarge});
  const std::string head = "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kLarge) + "\r\n\r\n";
  std::vector<platform::Fd> slow;
  const auto begin = [&] {  // all of a body but its last byte
    slow.push_back(*platform::ConnectUnixStream(path_));
    const std::string most = head + std::string(kLarge - 1, 'x');
    ASSERT_EQ(::send(slow.back().get(), most.data(), most.size(), MSG_NOSIGNAL), static_cast<ssize_t>(most.size()));
  };
  begin();
  begin();
  const auto ask = [&](std::size_t bytes) {
    const auto answer = AskPath({"PUT", "/a", std::string(bytes, 'y')});
    return answer ? answer->status : 0U;
  };
  EXPECT_TRUE(testing::WaitUntil([&] { return ask(kLarge) == 503; }));
  EXPECT_EQ(ask(kLargeBody), 200U) << "small bodies are served";
  const auto chunked = Say(path_, "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(chunked.starts_with("HTTP/1.1 503 ")) << "it may be as long as the limit: " << chunked;
  EXPECT_EQ(::send(slow.front().get(), "z", 1, MSG_NOSIGNAL), 1);
  EXPECT_TRUE(testing::WaitUntil([&] { return ask(kLarge) == 200; })) << "one has ended";
  slow.clear();
  EXPECT_TRUE(testing::WaitUntil([&] { return ask(2 * kLarge) == 200; })) << "clients that have gone hold nothing";
}

TEST_F(ServerTest, TheHeadOfARequestIsKnownBeforeItsBody) {
  Request seen;
  Limits limits;
  limits.refuse = [&seen](const Request& head) {
    seen = head;
    return std::optional(Reply{418, "text/plain", "short"});
  };
  Serve([](const Request&, const Respond&) {}, limits);
  const std::string said = Say(path_,
                               "PUT /a HTTP/1.1\r\nHost: gpu:80\r\nOrigin: http://gpu:80\r\n"
                               "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n");
  EXPECT_TRUE(said.starts_with("HTTP/1.1 418 ")) << said;
  EXPECT_EQ(seen.host, "gpu:80");
  EXPECT_EQ(seen.origin, "http://gpu:80");
  EXPECT_EQ(seen.content_type, "application/json");
  EXPECT_TRUE(seen.has_body);
  Say(path_, "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(seen.host, "a, b") << "no check may take one of two lines for the only one";
  EXPECT_EQ(seen.origin + seen.content_type, "");
  EXPECT_FALSE(seen.has_body);
  Say(path_, "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(seen.has_body);
}

TEST_F(ServerTest, ARequestWithoutAnAnswerAtTheEndIsAskedOfTheNextService) {
  Serve([&](const Request&, Respond respond) {
    held_ = std::move(respond);
    holds_ = true;
  });
  std::optional<Result<Answer>> answer;
  std::thread asks([&] { answer = AskPath({.method = "GET", .target = "/held"}); });
  EXPECT_TRUE(testing::WaitUntil([&] { return holds_.load(); }));
  loop_.stop();
  thread_.join();
  held_ = nullptr;
  asks.join();
  ASSERT_TRUE(*answer) << answer->error().message;
  EXPECT_EQ((*answer)->status, 503U);
  EXPECT_NE((*answer)->body.find("\"unavailable\""), std::string::npos) << (*answer)->body;
}

TEST_F(ServerTest, EveryReplyHasTheLinesOfTheLimits) {
  Limits limits;
  limits.headers = {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}};
  limits.refuse = [](const Request& head) {
    return head.path == "/refused" ? std::optional(Reply{403, "text/plain", "no"}) : std::nullopt;
  };
  Serve(
      [](const Request& request, const Respond& respond) {
        if (request.path == "/events") return respond({.events = std::make_shared<EventStream>()});
        if (request.path != "/abandoned") respond({200, "text/plain", "x"});
      },
      limits);
  for (const std::string request :
       {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "GET /refused HTTP/1.1\r\n\r\n",
        "GET /abandoned HTTP/1.1\r\nConnection: close\r\n\r\n", "rubbish\r\n\r\n", "GET /events HTTP/1.1\r\n\r\n"}) {
    auto connection = platform::ConnectUnixStream(path_);
    ASSERT_TRUE(connection) << connection.error().message;
    ASSERT_GT(::send(connection->get(), request.data(), request.size(), 0), 0);
    const std::string said = ReadUntil(connection->get(), "\r\n\r\n");
    EXPECT_NE(said.find("\r\nX-Content-Type-Options: nosniff\r\n"), std::string::npos) << request << said;
    EXPECT_NE(said.find("\r\nCache-Control: no-store\r\n"), std::string::npos) << request << said;
  }
}

TEST_F(ServerTest, ABodyOverItsLimitGetsTheGivenReplyButOnlyOnceTheHeadIsAccepted) {
  Limits limits{.request_bytes = 1000};
  limits.refuse = [](const Request& head) {
    return head.bearer == "secret" ? std::nullopt : std::optional(Reply{401, "text/plain", "who?"});
  };
  limits.too_large = Reply{413, "text/plain", "too large"};
  Serve([](const Request& request, const Respond& respond) { respond({200, "text/plain", request.body}); }, limits);
  const std::string known = "PUT / HTTP/1.1\r\nAuthorization: Bearer secret\r\n";
  EXPECT_TRUE(Say(path_, "PUT / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n").starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(Say(path_, known + "Content-Length: 1001\r\n\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(Say(path_, known + "Content-Length: 99999999999999999999\r\n\r\n").starts_with("HTTP/1.1 400 "));
  const std::string chunk = "1f4\r\n" + std::string(500, 'x') + "\r\n";
  EXPECT_TRUE(Say(path_, known + "Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk + "1\r\nx\r\n0\r\n\r\n")
                  .starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(
      Say(path_, known + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk + "0\r\n\r\n")
          .starts_with("HTTP/1.1 200 "));
}

/// A server whose only reply is a stream of events, and a client of it.
class EventsTest : public ServerTest {
 protected:
  void Open() {
    Serve([this](const Request&, const Respond& respond) {
      events_ = std::make_shared<EventStream>([this] { ++gone_; });
      respond({.content_type = EventStream::kContentType, .events = events_});
      is_open_ = true;
    });
    auto connected = platform::ConnectUnixStream(path_);
    ASSERT_TRUE(connected) << connected.error().message;
    client_ = std::move(*connected);
    const std::string_view head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    ASSERT_EQ(::send(client_.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
    ASSERT_TRUE(testing::WaitUntil([this] { return is_open_.load(); }));
  }
  /// Calls `work` in the loop's thread, and waits for it.
  void InLoop(std::function<void()> work) {
    std::atomic<bool> done = false;
    boost::asio::post(loop_, [&] {
      work();
      done = true;
    });
    ASSERT_TRUE(testing::WaitUntil([&] { return done.load(); }));
  }

  std::shared_ptr<EventStream> events_;  // used by the loop's thread only
  std::atomic<bool> is_open_ = false;
  std::atomic<int> gone_ = 0;
  platform::Fd client_;
};

TEST_F(EventsTest, ArriveInTheirOrderWhileOthersAreServed) {
  Open();
  InLoop([this] {
    EXPECT_TRUE(events_->Send(EventStream::Format("hello", "{}")));
    EXPECT_TRUE(events_->Send(EventStream::Format("text", "two\nlines")));
  });
  const std::string said = ReadUntil(client_.get(), "lines\n\n");
  EXPECT_TRUE(said.starts_with("HTTP/1.1 200 OK\r\n")) << said;
  EXPECT_NE(said.find("\r\nContent-Type: text/event-stream\r\n"), std::string::npos) << said;
  EXPECT_EQ(said.substr(said.find("\r\n\r\n") + 4),
            "event: hello\ndata: {}\n\nevent: text\ndata: two\ndata: lines\n\n");
  EXPECT_TRUE(testing::WaitUntil([this] {
    std::size_t waiting = 1;
    InLoop([&] { waiting = events_->waiting(); });
    return waiting == 0;
  }));
  EXPECT_EQ(gone_, 0);
}

TEST_F(EventsTest, TheOwnerIsToldThatTheClientHasGone) {
  Open();
  client_.Reset();
  EXPECT_TRUE(testing::WaitUntil([this] { return gone_ == 1; }));
  InLoop([this] {
    EXPECT_TRUE(events_->ended());
    EXPECT_FALSE(events_->Send(EventStream::Format("late", "x")));
  });
  EXPECT_EQ(gone_, 1);
}

TEST_F(EventsTest, AClientThatSpeaksOutOfTurnIsDisconnected) {
  Open();
  ASSERT_EQ(::send(client_.get(), "x", 1, 0), 1);
  EXPECT_TRUE(testing::WaitUntil([this] { return gone_ == 1; }));
  EXPECT_EQ(ReadUntil(client_.get(), "").find("(nothing more came)"), std::string::npos);
}

TEST_F(EventsTest, AClientThatDoesNotReadIsDisconnectedWhenTheBoundIsReached) {
  Open();
  const EventStream::Text large = EventStream::Format("large", std::string(1 << 20, 'x'));
  std::size_t most = 0;
  int sent = 0;
  InLoop([&] {
    while (sent < 64 && events_->Send(large)) {
      ++sent;
      most = std::max(most, events_->waiting());
    }
  });
  EXPECT_GE(sent, 4);
  EXPECT_LT(sent, 64);
  EXPECT_LE(most, EventStream::kWaitingMax + large->size());
  EXPECT_TRUE(testing::WaitUntil([this] { return gone_ == 1; }));
  EXPECT_EQ(ReadUntil(client_.get(), "").find("(nothing more came)"), std::string::npos) << "it is closed";
}

TEST(EventStreamTest, OneEventMayBeLargerThanTheBound) {
  EventStream stream;
  EXPECT_TRUE(stream.Send(EventStream::Format("a", std::string(EventStream::kWaitingMax + 1, 'x'))));
  EXPECT_FALSE(stream.Send(EventStream::Format("b", "")));
  EXPECT_TRUE(stream.ended());
}

TEST(EventStreamTest, DataCannotEndAnEvent) {
  EXPECT_EQ(*EventStream::Format("a", "1\r\revent: b\n"), "event: a\ndata: 1\ndata: \ndata: event: b\ndata: \n\n");
}

}  // namespace
}  // namespace weir::http
