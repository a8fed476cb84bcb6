// SPDX-License-Identifier: Apache-2.0
// Against a server that says exactly what each test wants it to say.
#include "cli/http_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

#include "cli/control_client.h"

namespace weir::cli {
namespace {

constexpr Duration kPatience = seconds(10);

/// Listens at a fresh path, takes one connection, reads one request and lets `answer` do with the connection what it
/// wants.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(FakeServer&, int)> answer) : answer_(std::move(answer)) {
    std::string name = ::testing::TempDir() + "/weir-http-XXXXXX";
    dir_ = mkdtemp(name.data());
    path_ = dir_ / "s";
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    EXPECT_EQ(pipe(stop_), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  FakeServer(const FakeServer&) = delete;
  ~FakeServer() {
    close(stop_[1]);
    if (thread_.joinable()) thread_.join();
    close(stop_[0]);
    close(listener_);
    std::filesystem::remove_all(dir_);
  }

  static FakeServer Saying(std::string_view text) {
    return FakeServer([text](FakeServer&, int fd) {
      EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    });
  }

  [[nodiscard]] std::string Path() const { return path_.string(); }
  /// What was asked.
  [[nodiscard]] const std::string& Request() {
    if (thread_.joinable()) thread_.join();
    return request_;
  }
  /// Holds the connection open until the test ends.
  void Hold() { Readable(stop_[0], stop_[0]); }

 private:
  static bool Readable(int fd, int stop) {
    pollfd polled[2] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
    poll(polled, 2, 10'000);
    return (polled[0].revents & POLLIN) != 0;
  }
  void Serve() {
    if (!Readable(listener_, stop_[0])) return;
    const int fd = accept(listener_, nullptr, nullptr);
    while (!Complete() && Readable(fd, stop_[0])) {
      char bytes[4096];
      const ssize_t count = read(fd, bytes, sizeof(bytes));
      if (count <= 0) break;
      request_.append(bytes, static_cast<std::size_t>(count));
    }
    answer_(*this, fd);
    close(fd);
  }
  [[nodiscard]] bool Complete() const {
    const std::size_t head = request_.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const std::size_t length = request_.find("Content-Length: ");
    return length == std::string::npos || request_.size() >= head + 4 + std::stoul(request_.substr(length + 16));
  }

  std::function<void(FakeServer&, int)> answer_;
  std::filesystem::path dir_, path_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::string request_;
  std::thread thread_;
};

TEST(HttpClient, AsksAndReadsTheReply) {
  auto server = FakeServer::Saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
  const auto reply = AskOverUnixSocket(server.Path(), {"PUT", "/v1/x", R"({"a":1})"}, kPatience);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200U);
  EXPECT_EQ(reply->body, "{}");
  EXPECT_TRUE(server.Request().starts_with("PUT /v1/x HTTP/1.1\r\n"));
  EXPECT_TRUE(server.Request().ends_with("\r\n\r\n{\"a\":1}"));
}

TEST(HttpClient, ReadsABodyThatEndsWithTheConnection) {
  auto server = FakeServer::Saying("HTTP/1.1 404 Not Found\r\n\r\nno");
  const auto reply = AskOverUnixSocket(server.Path(), {"GET", "/", ""}, kPatience);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 404U);
  EXPECT_EQ(reply->body, "no");
}

TEST(HttpClient, SaysWhenNobodyIsThere) {
  const auto absent = AskOverUnixSocket("/nowhere/at/all.sock", {"GET", "/", ""}, kPatience);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Errc::kUnavailable);
  EXPECT_NE(absent.error().message.find("weir serve"), std::string::npos);
}

TEST(HttpClient, RefusesAPathThatDoesNotFitASocketAddress) {
  const auto asked = AskOverUnixSocket("/" + std::string(200, 'x'), {"GET", "/", ""}, kPatience);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Errc::kInvalidArgument);
}

TEST(HttpClient, CallsGarbageAForeignProgram) {
  auto server = FakeServer::Saying("SSH-2.0-OpenSSH_9.2\r\nhello\r\n\r\n");
  const auto asked = AskOverUnixSocket(server.Path(), {"GET", "/", ""}, kPatience);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Errc::kProtocol);
}

TEST(HttpClient, NoticesAConnectionDroppedBeforeOrWithinTheReply) {
  for (const char* text : {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"}) {
    auto server = FakeServer::Saying(text);
    const auto asked = AskOverUnixSocket(server.Path(), {"GET", "/", ""}, kPatience);
    ASSERT_FALSE(asked) << text;
    EXPECT_EQ(asked.error().code, Errc::kUnavailable) << asked.error().message;
  }
}

TEST(HttpClient, StopsWaitingForASilentServer) {
  FakeServer server([](FakeServer& self, int) { self.Hold(); });
  const auto asked = AskOverUnixSocket(server.Path(), {"GET", "/", ""}, milliseconds(100));
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Errc::kTimeout) << asked.error().message;
}

TEST(ControlClient, ReturnsTheJsonOfAGoodReply) {
  auto server = FakeServer::Saying("HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n{\"name\":\"a\"}");
  const auto reply = ControlClient(server.Path()).Post("/v1/vgpus", {{"name", "a"}});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->at("name"), "a");
  EXPECT_TRUE(server.Request().ends_with(R"({"name":"a"})"));
}

TEST(ControlClient, TurnsAnErrorReplyIntoItsCode) {
  constexpr std::string_view kBody = R"({"error":{"code":"not-found","message":"no vGPU named 'a'"}})";
  const std::string text =
      "HTTP/1.1 404 Not Found\r\nContent-Length: " + std::to_string(kBody.size()) + "\r\n\r\n" + std::string(kBody);
  auto server = FakeServer::Saying(text);
  const auto reply = ControlClient(server.Path()).Get("/v1/vgpus/a");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kNotFound);
  EXPECT_EQ(reply.error().message, "no vGPU named 'a'");
}

TEST(ControlClient, FallsBackOnTheStatusWhenTheErrorIsNotOurs) {
  auto server = FakeServer::Saying("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope");
  const auto reply = ControlClient(server.Path()).Get("/v1/status");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kPermissionDenied);
}

TEST(ControlClient, RefusesAReplyThatIsNotJson) {
  for (const char* text :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]"}) {
    auto server = FakeServer::Saying(text);
    const auto reply = ControlClient(server.Path()).Get("/v1/status");
    ASSERT_FALSE(reply) << text;
    EXPECT_EQ(reply.error().code, Errc::kProtocol);
  }
}

TEST(PercentEncode, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(PercentEncode("a-b_c.D~9"), "a-b_c.D~9");
  EXPECT_EQ(PercentEncode("a/b?c d%"), "a%2Fb%3Fc%20d%25");
}

}  // namespace
}  // namespace weir::cli
