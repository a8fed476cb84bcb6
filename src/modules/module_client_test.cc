// SPDX-License-Identifier: Apache-2.0
#include "modules/module_client.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <thread>

#include "http/json_api.h"
#include "http/server.h"
#include "modules/sha256.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::modules {
namespace {

const std::string kBytes = "an output";

/// A service that has one blob, takes others, and answers the first requests with an error.
class ClientOfABusyService : public ::testing::Test {
 protected:
  void Serve(Error error, int times) {
    server_ = *http::Server::ListenUnix(
        loop_, socket_, {}, [this, error, times](const http::Request& request, const http::Respond& respond) {
          if (asked_++ < times) return respond(http::ErrorReply(error));
          if (request.method == "PUT") return respond(http::JsonReply({{"bytes", request.body.size()}}, 201));
          respond({.status = 200, .content_type = "application/octet-stream", .body = kBytes});
        });
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~ClientOfABusyService() override { loop_.stop(); }

  const testing::TempFolder folder_;
  const std::string socket_ = folder_ / "modules.sock";
  boost::asio::io_context loop_{1};
  std::unique_ptr<http::Server> server_;
  int asked_ = 0;  // used by the loop's thread only, until it has answered
  ModuleClient client_ = ModuleClient::OfNode(socket_);
  std::jthread thread_;  // last: it ends first
};

TEST_F(ClientOfABusyService, AsksForABlobAgain) {
  Serve(Fail(Errc::kUnavailable, "as many large replies are on their way as may be"), 1);
  const auto blob = client_.GetBlob(Sha256Of(kBytes));
  ASSERT_TRUE(blob) << blob.error().message;
  EXPECT_EQ(*blob, kBytes);
  EXPECT_EQ(asked_, 2);
}

TEST_F(ClientOfABusyService, PutsABlobAgain) {
  Serve(Fail(Errc::kUnavailable, "as many large requests are under way as may be"), 1);
  const auto blob = client_.PutBlob(kBytes);
  ASSERT_TRUE(blob) << blob.error().message;
  EXPECT_EQ(*blob, Sha256Of(kBytes));
  EXPECT_EQ(asked_, 2);
}

TEST_F(ClientOfABusyService, DoesNotPutABlobAgainThatIsRefused) {
  Serve(Fail(Errc::kInvalidArgument, "it has another SHA-256"), 1);
  EXPECT_EQ(testing::CodeOf(client_.PutBlob(kBytes)), Errc::kInvalidArgument);
  EXPECT_EQ(asked_, 1);
}

TEST_F(ClientOfABusyService, DoesNotAskAgainForABlobThatIsNotThere) {
  Serve(Fail(Errc::kNotFound, "no such blob"), 1);
  EXPECT_EQ(testing::CodeOf(client_.GetBlob(Sha256Of(kBytes))), Errc::kNotFound);
  EXPECT_EQ(asked_, 1);
}

TEST_F(ClientOfABusyService, GivesUpWhenItsPatienceIsOver) {
  Serve(Fail(Errc::kUnavailable, "as many large replies are on their way as may be"), 1'000);
  client_.SetPatience(Duration{0});
  EXPECT_EQ(testing::CodeOf(client_.GetBlob(Sha256Of(kBytes))), Errc::kUnavailable);
}

}  // namespace
}  // namespace weir::modules
