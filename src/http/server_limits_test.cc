// SPDX-License-Identifier: Apache-2.0
// What one client can take of a server: places and memory.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "http/client.h"
#include "http/server.h"
#include "platform/unix_socket.h"
#include "tests/harness/code_of.h"
#include "tests/harness/wait_until.h"

namespace weir::http {
namespace {

const Holder kLab{.role = "tenant", .name = "lab"}, kOther{.role = "tenant", .name = "other"};

/// A server of adopted connections, in a separate thread.
class ServerLimitsTest : public ::testing::Test {
 protected:
  void Serve(const Limits& limits, Handler handler) {
    server_ = Server::Adopting(loop_, limits, std::move(handler));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServerLimitsTest() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }
  /// The client's end of a connection that the server was given.
  platform::Fd Connect(const Holder& holder) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    boost::asio::post(loop_, [this, holder, end = std::make_shared<platform::Fd>(ends[0])] {
      server_->Adopt(std::move(*end), holder);
    });
    return platform::Fd(ends[1]);
  }
  /// Sends the request and reads no reply.
  platform::Fd Begin(const Holder& holder, const std::string& path) {
    platform::Fd client = Connect(holder);
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
    EXPECT_EQ(::send(client.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    return client;
  }
  Result<Answer> Ask(const Holder& holder, const Call& call) {
    return AskOver(Connect(holder), "the server", call, seconds(20));
  }
  unsigned StatusOf(const Holder& holder, const Call& call) {
    const auto answer = Ask(holder, call);
    return answer ? answer->status : 0;
  }

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{loop_.get_executor()};
  std::unique_ptr<Server> server_;
  std::vector<Respond> held_;  // used by the loop's thread only
  std::atomic<int> holds_ = 0;
  std::thread thread_;
};

TEST_F(ServerLimitsTest, OneHolderCannotTakeAllPlacesWithHeldReplies) {
  Serve({.connections = 8, .connections_per_address = 2}, [this](const Request& request, const Respond& respond) {
    if (request.path != "/hold") return respond({200, "text/plain", request.holder.name});
    held_.push_back(respond);
    ++holds_;
  });
  for (int i = 0; i < 2; ++i) (void)Begin(kLab, "/hold");  // the client goes and its reply stays held
  ASSERT_TRUE(testing::WaitUntil([this] { return holds_ == 2; }));
  EXPECT_EQ(testing::CodeOf(Ask(kLab, {"GET", "/"})), Errc::kUnavailable);
  EXPECT_EQ(StatusOf(kOther, {"GET", "/"}), 200U);
  boost::asio::post(loop_, [this] { held_.clear(); });
  EXPECT_TRUE(testing::WaitUntil([this] { return StatusOf(kLab, {"GET", "/"}) == 200; }));
}

TEST_F(ServerLimitsTest, AClientThatHangsUpGivesItsPlaceBackIfItsReplyIsDropped) {
  Serve({.connections = 1}, [this](const Request& request, const Respond& respond) {
    if (request.path != "/hold") return respond({200, "text/plain", ""});
    held_.push_back(respond);
    request.when_gone([this] { held_.clear(); });
    ++holds_;
  });
  platform::Fd client = Begin(kLab, "/hold");
  ASSERT_TRUE(testing::WaitUntil([this] { return holds_ == 1; }));
  EXPECT_EQ(testing::CodeOf(Ask(kOther, {"GET", "/"})), Errc::kUnavailable) << "the only place is taken";
  client.Reset();
  EXPECT_TRUE(testing::WaitUntil([this] { return StatusOf(kOther, {"GET", "/"}) == 200; }));
}

TEST_F(ServerLimitsTest, AClientThatOnlySendsNoMoreGetsItsReply) {
  Serve({}, [this](const Request& request, const Respond& respond) {
    held_.push_back(respond);
    request.when_gone([this] { held_.clear(); });
    ++holds_;
  });
  const platform::Fd client = Begin(kLab, "/hold");
  ASSERT_EQ(::shutdown(client.get(), SHUT_WR), 0);
  ASSERT_TRUE(testing::WaitUntil([this] { return holds_ == 1; }));
  boost::asio::post(loop_, [this] {
    if (!held_.empty()) held_.front()({200, "text/plain", "late"});
  });
  std::string said;
  while (said.find("late") == std::string::npos && platform::WaitReadable(client.get(), 20'000)) {
    char part[512];
    const ssize_t got = ::recv(client.get(), part, sizeof part, 0);
    if (got <= 0) break;
    said.append(part, static_cast<std::size_t>(got));
  }
  EXPECT_NE(said.find("late"), std::string::npos) << said;
}

TEST_F(ServerLimitsTest, LargeRepliesThatAreNotReadAreBoundedTogether) {
  constexpr std::size_t kLarge = std::size_t{4} << 20;  // more than a socket takes
  Serve({.reply_bytes = 3 * kLarge, .reply_bytes_of_one = 2 * kLarge},
        [this](const Request& request, const Respond& respond) {
          respond({200, "text/plain", std::string(request.path == "/large" ? kLarge : kLargeBody, 'x')});
          ++holds_;
        });
  std::vector<platform::Fd> slow;
  for (int i = 0; i < 2; ++i) slow.push_back(Begin(kLab, "/large"));
  ASSERT_TRUE(testing::WaitUntil([this] { return holds_ == 2; }));
  const auto refused = Ask(kLab, {"GET", "/large"});
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_EQ(refused->status, 503U);
  EXPECT_NE(refused->body.find("\"unavailable\""), std::string::npos) << refused->body;
  EXPECT_NE(refused->body.find("at most 8 MiB of one client and 12 MiB of all"), std::string::npos) << refused->body;
  EXPECT_NE(refused->body.find("try again"), std::string::npos) << refused->body;
  EXPECT_EQ(StatusOf(kLab, {"GET", "/small"}), 200U);
  EXPECT_EQ(StatusOf(kOther, {"GET", "/large"}), 200U);
  EXPECT_TRUE(testing::WaitUntil([this] {
    return StatusOf(kOther, {"GET", "/large"}) == 200;
  })) << "a reply that was read no longer counts";
  const int before = holds_;
  slow.push_back(Begin(kOther, "/large"));
  ASSERT_TRUE(testing::WaitUntil([this, before] { return holds_ > before; }));
  EXPECT_EQ(StatusOf(kOther, {"GET", "/large"}), 503U) << "of all clients together";
  slow.clear();
  EXPECT_TRUE(testing::WaitUntil([this] {
    return StatusOf(kLab, {"GET", "/large"}) == 200;
  })) << "a client that has gone holds nothing";
}

TEST_F(ServerLimitsTest, ARequestsOwnLimitIsCheckedBeforeItsBodyIsRead) {
  std::size_t bytes = 0;
  Limits limits{.request_bytes = 100'000,
                .request_bytes_of = [](const Request& head) { return head.path == "/large" ? 100'000U : 1'000U; },
                .too_large = Reply{400, "text/plain", "too large"}};
  Serve(limits, [&bytes](const Request& request, const Respond& respond) {
    bytes = request.body.size();
    respond({200, "text/plain", "fine"});
  });
  EXPECT_EQ(StatusOf(kLab, {"PUT", "/large", std::string(100'000, 'x')}), 200U);
  EXPECT_EQ(StatusOf(kLab, {"PUT", "/small", std::string(1'000, 'x')}), 200U);
  EXPECT_EQ(Ask(kLab, {"PUT", "/small", std::string(1'001, 'x')})->body, "too large");
  EXPECT_EQ(StatusOf(kLab, {"PUT", "/large", std::string(100'001, 'x')}), 400U);
  EXPECT_EQ(bytes, 1'000U);
}

}  // namespace
}  // namespace weir::http
