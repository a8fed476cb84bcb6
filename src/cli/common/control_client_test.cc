// SPDX-License-Identifier: Apache-2.0
#include "cli/common/control_client.h"

#include <gtest/gtest.h>

#include "tests/harness/one_answer_server.h"

namespace weir::cli {
namespace {

using testing::OneAnswerServer;

TEST(ControlClient, ReturnsTheJsonOfAGoodReply) {
  auto server = OneAnswerServer::Saying("HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n{\"name\":\"a\"}");
  const auto reply = ControlClient(server.Path()).Post("/v1/vgpus", {{"name", "a"}});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->at("name"), "a");
  EXPECT_TRUE(server.Request().ends_with(R"({"name":"a"})"));
}

TEST(ControlClient, TurnsAnErrorReplyIntoItsCode) {
  constexpr std::string_view kBody = R"({"error":{"code":"not-found","message":"no vGPU named 'a'"}})";
  const std::string text =
      "HTTP/1.1 404 Not Found\r\nContent-Length: " + std::to_string(kBody.size()) + "\r\n\r\n" + std::string(kBody);
  auto server = OneAnswerServer::Saying(text);
  const auto reply = ControlClient(server.Path()).Get("/v1/vgpus/a");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kNotFound);
  EXPECT_EQ(reply.error().message, "no vGPU named 'a'");
}

TEST(ControlClient, SaysHowToStartADaemon) {
  const auto reply = ControlClient("/nowhere/at/all.sock").Get("/v1/status");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kUnavailable);
  EXPECT_NE(reply.error().message.find("weir serve"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
