// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <gtest/gtest.h>

#include "http/async_client.h"
#include "tests/harness/code_of.h"
#include "tests/harness/one_answer_server.h"

namespace weir::http {
namespace {

using testing::OneAnswerServer;

constexpr Duration kPatience = seconds(10);

TEST(HttpClient, SendsARequestAndReadsTheReply) {
  auto server = OneAnswerServer::Saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
  const auto reply = AskUnix(server.Path(), {"PUT", "/v1/x", R"({"a":1})"}, kPatience);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200U);
  EXPECT_EQ(reply->body, "{}");
  EXPECT_TRUE(server.Request().starts_with("PUT /v1/x HTTP/1.1\r\n"));
  EXPECT_TRUE(server.Request().ends_with("\r\n\r\n{\"a\":1}"));
}

TEST(HttpClient, SendsHeadersOfTheCallersInsteadOfItsOwn) {
  auto server = OneAnswerServer::Saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
  const Call call{.method = "GET", .target = "/", .headers = {{"X-Auth-Token", "secret"}, {"Host", "cloud:8778"}}};
  ASSERT_TRUE(AskUnix(server.Path(), call, kPatience));
  EXPECT_NE(server.Request().find("X-Auth-Token: secret\r\n"), std::string::npos) << server.Request();
  EXPECT_NE(server.Request().find("Host: cloud:8778\r\n"), std::string::npos) << server.Request();
  EXPECT_EQ(server.Request().find("Host: weir"), std::string::npos) << server.Request();
}

TEST(HttpClient, ReadsABodyThatEndsWithTheConnection) {
  auto server = OneAnswerServer::Saying("HTTP/1.1 404 Not Found\r\n\r\nno");
  const auto reply = AskUnix(server.Path(), {"GET", "/", ""}, kPatience);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 404U);
  EXPECT_EQ(reply->body, "no");
}

TEST(HttpClient, RefusesABodyOfMoreThanTheLimitBeforeItMakesRoomForIt) {
  for (const char* length : {"83886081", "1099511627776", "288230376151711744", "18446744070955161615"}) {
    const std::string said = std::string("HTTP/1.1 200 OK\r\nContent-Length: ") + length + "\r\n\r\nx";
    auto server = OneAnswerServer::Saying(said);
    const auto asked = AskUnix(server.Path(), {"GET", "/", ""}, kPatience);
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, Errc::kProtocol) << asked.error().message;
    EXPECT_NE(asked.error().message.find("body limit"), std::string::npos) << asked.error().message;
  }
}

TEST(HttpClient, ReportsAMissingServer) {
  const Call call{.method = "GET", .target = "/", .if_absent = "begin with 'it'"};
  const auto absent = AskUnix("/nowhere/at/all.sock", call, kPatience);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Errc::kUnavailable);
  EXPECT_TRUE(absent.error().message.ends_with("; begin with 'it'")) << absent.error().message;
}

TEST(HttpClient, RefusesAPathThatDoesNotFitASocketAddress) {
  const auto asked = AskUnix("/" + std::string(200, 'x'), {"GET", "/", ""}, kPatience);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Errc::kInvalidArgument);
}

TEST(HttpClient, ReportsGarbageAsAForeignServer) {
  auto server = OneAnswerServer::Saying("SSH-2.0-OpenSSH_9.2\r\nhello\r\n\r\n");
  const auto asked = AskUnix(server.Path(), {"GET", "/", ""}, kPatience);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Errc::kProtocol);
}

TEST(HttpClient, NoticesAConnectionDroppedBeforeOrWithinTheReply) {
  for (const char* text : {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"}) {
    auto server = OneAnswerServer::Saying(text);
    const auto asked = AskUnix(server.Path(), {"GET", "/", ""}, kPatience);
    ASSERT_FALSE(asked) << text;
    EXPECT_EQ(asked.error().code, Errc::kUnavailable) << asked.error().message;
  }
}

TEST(HttpClient, StopsWaitingForASilentServer) {
  OneAnswerServer server([](OneAnswerServer& self, int) { self.Hold(); });
  const auto asked = AskUnix(server.Path(), {"GET", "/", ""}, milliseconds(100));
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Errc::kTimeout) << asked.error().message;
}

TEST(HttpClient, ReportsAnUnknownHostOrPort) {
  // Nothing listens on port 1 of the loopback.
  EXPECT_EQ(testing::CodeOf(AskTcp("127.0.0.1", 1, {"GET", "/"}, kPatience)), Errc::kUnavailable);
  EXPECT_EQ(testing::CodeOf(AskTcp("no such host", 80, {"GET", "/"}, kPatience)), Errc::kInvalidArgument);
}

/// Asks without blocking, and runs the loop until the answer is there.
Result<Answer> AskInLoop(const std::string& path, Duration timeout, std::uint64_t bytes_max = 1'000) {
  boost::asio::io_context loop(1);
  Result<Answer> result = Fail(Errc::kInternal, "not called");
  int calls = 0;
  AskUnixAsync(loop, path, {.method = "GET", .target = "/a", .if_absent = "begin with 'it'"}, timeout, bytes_max,
               [&](Result<Answer> answer) {
                 ++calls;
                 result = std::move(answer);
               });
  EXPECT_EQ(calls, 0) << "it is not called from the call itself";
  loop.run();
  EXPECT_EQ(calls, 1);
  return result;
}

TEST(AsyncHttpClient, ReadsTheReplyInTheLoop) {
  auto server = OneAnswerServer::Saying("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}");
  const auto reply = AskInLoop(server.Path(), kPatience);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 201U);
  EXPECT_EQ(reply->body, "{}");
  EXPECT_TRUE(server.Request().starts_with("GET /a HTTP/1.1\r\n"));
}

TEST(AsyncHttpClient, ReportsAMissingASilentAndATalkativeServer) {
  const auto absent = AskInLoop("/nowhere/at/all.sock", kPatience);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Errc::kUnavailable);
  EXPECT_TRUE(absent.error().message.ends_with("; begin with 'it'")) << absent.error().message;
  OneAnswerServer silent([](OneAnswerServer& self, int) { self.Hold(); });
  EXPECT_EQ(testing::CodeOf(AskInLoop(silent.Path(), milliseconds(100))), Errc::kTimeout);
  auto talkative = OneAnswerServer::Saying("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n12345678901");
  EXPECT_EQ(testing::CodeOf(AskInLoop(talkative.Path(), kPatience, 10)), Errc::kProtocol);
}

TEST(PercentEncode, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(PercentEncode("a-b_c.D~9"), "a-b_c.D~9");
  EXPECT_EQ(PercentEncode("a/b?c d%"), "a%2Fb%3Fc%20d%25");
}

}  // namespace
}  // namespace weir::http
