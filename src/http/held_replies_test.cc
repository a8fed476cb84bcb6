// SPDX-License-Identifier: Apache-2.0
#include "http/held_replies.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir::http {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

class HeldRepliesTest : public ::testing::Test {
 protected:
  void Hold(const std::string& name, Duration at_most = kHour) {
    replies_->Hold([this] { return due_; }, [name, this] { return Reply{.body = name + (due_ ? " due" : " late")}; },
                   [this](Reply reply) { sent_.push_back(std::move(reply.body)); }, at_most);
  }

  boost::asio::io_context loop_{1};
  std::unique_ptr<HeldReplies> replies_ = std::make_unique<HeldReplies>(loop_);
  bool due_ = false;
  std::vector<std::string> sent_;
};

TEST_F(HeldRepliesTest, AReplyThatIsDueIsSentAtOnce) {
  due_ = true;
  Hold("a");
  EXPECT_EQ(sent_, std::vector<std::string>{"a due"});
  EXPECT_EQ(replies_->size(), 0U);
}

TEST_F(HeldRepliesTest, AReplyIsHeldUntilItIsDue) {
  Hold("a");
  Hold("b");
  replies_->SendDue();
  EXPECT_TRUE(sent_.empty());
  due_ = true;
  replies_->SendDue();
  replies_->SendDue();
  EXPECT_EQ(sent_, (std::vector<std::string>{"a due", "b due"})) << "in the order of the requests, each once";
}

TEST_F(HeldRepliesTest, AReplyIsSentWhenItsTimeIsOver) {
  Hold("long");
  Hold("short", milliseconds(1));
  Hold("none", Duration{0});
  EXPECT_EQ(sent_, std::vector<std::string>{"none late"}) << "a request without a wait gets its reply at once";
  while (sent_.size() < 2 && loop_.run_one() > 0) {
  }
  EXPECT_EQ(sent_, (std::vector<std::string>{"none late", "short late"}));
  EXPECT_EQ(replies_->size(), 1U) << "the other one has an hour left";
}

TEST_F(HeldRepliesTest, AllAreReplacedWhenTheOwnerCannotAnswer) {
  Hold("a");
  Hold("b");
  replies_->SendAll({.status = 503, .body = "not now"});
  EXPECT_EQ(sent_, (std::vector<std::string>{"not now", "not now"}));
}

TEST_F(HeldRepliesTest, AReplyMayHoldAnotherOne) {
  replies_->Hold([this] { return due_; }, [] { return Reply{}; }, [this](Reply /*reply*/) { Hold("next"); }, kHour);
  due_ = true;
  replies_->SendDue();
  EXPECT_EQ(sent_, std::vector<std::string>{"next due"});
}

TEST_F(HeldRepliesTest, AClientThatHangsUpIsNotHeldAndNoReplyIsMadeForIt) {
  std::function<void()> gone;
  auto connection = std::make_shared<int>(0);
  const std::weak_ptr<int> open = connection;
  replies_->Hold([] { return false; },
                 []() -> Reply {
                   ADD_FAILURE() << "nobody reads it";
                   return {};
                 },
                 [connection](const Reply& /*reply*/) { ADD_FAILURE() << *connection; }, kHour,
                 [&gone](std::function<void()> then) { gone = std::move(then); });
  Hold("other");
  connection.reset();
  ASSERT_TRUE(gone);
  EXPECT_FALSE(open.expired());
  gone();
  EXPECT_TRUE(open.expired());
  EXPECT_EQ(replies_->size(), 1U) << "the other one is still held";
  gone();
  replies_.reset();
  gone();  // a client may go after the end of this object
}

TEST_F(HeldRepliesTest, NothingIsSentAfterItsEnd) {
  Hold("a", milliseconds(1));
  replies_.reset();
  loop_.run();
  EXPECT_TRUE(sent_.empty());
}

}  // namespace
}  // namespace weir::http
