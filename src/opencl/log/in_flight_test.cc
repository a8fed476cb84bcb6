// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "opencl/log/object_log.h"
#include "tests/harness/followed_connection.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;
using testing::FollowedConnection;

class QuestionsOfALog : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kMoreQueues = 40, kMoreQueuesEnd = 44;
  static constexpr std::uint32_t kNumbers = 64;  // of questions; a million takes seconds under the address sanitizer

  void SetUp() override {
    const std::uint32_t device = kDevice;
    connection_.Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
    MakeQueue(kQueue);
    for (std::uint32_t queue = kMoreQueues; queue < kMoreQueuesEnd; ++queue) MakeQueue(queue);
  }
  void MakeQueue(std::uint32_t id) {
    connection_.Send(wire::CreateQueue{.id = id, .context = kContext, .device = kDevice});
  }
  /// Answers all questions but the first.
  void Take(const ObjectLog::Message& question) {
    wire::Finish finish;
    ASSERT_TRUE(wire::Decode(question, finish));
    ASSERT_GE(finish.request, ObjectLog::kQuestions);
    ASSERT_LT(finish.request, ObjectLog::kQuestions + kNumbers);
    ASSERT_NE(finish.request, first_);
    if (first_ == 0)
      first_ = finish.request;
    else
      ASSERT_TRUE(connection_.log.FromExecutor(wire::Encode(wire::Reply{.request = finish.request})));
  }

  FollowedConnection connection_{/*shares_arena=*/false, ObjectLog::kQuestions + kNumbers};
  std::uint32_t first_ = 0;
};

TEST_F(QuestionsOfALog, AreAboutACommandBeforeOneThatHasFailed) {
  connection_.Send(wire::Marker{.enqueue = {.queue = kQueue}});
  connection_.Send(wire::CopyBuffer{.enqueue = {.queue = kQueue, .event = 30}, .from = 98, .to = 99});
  connection_.Send(wire::Watch{.event = 30});
  EXPECT_EQ(connection_.log.in_flight().ends_untold, 0U);
  EXPECT_EQ(connection_.log.in_flight().commands, 2U) << "the failed command says nothing of the marker";
  connection_.Settle();
  EXPECT_TRUE(connection_.log.in_flight().none());
}

// A client may release busy queues millions of times. Numbers beyond the range are those of replays and of clients.
TEST_F(QuestionsOfALog, AreNumberedAgainFromTheFirstNumberThatIsFree) {
  const auto marker = wire::Encode(wire::Marker{.enqueue = {.queue = kQueue}});
  const auto release = wire::Encode(wire::Release{.id = kQueue});
  for (std::uint32_t i = 0; i < kNumbers - 2; ++i) {
    ASSERT_TRUE(connection_.log.FromClient(marker));
    const auto ahead = connection_.log.Ahead(release);
    ASSERT_TRUE(ahead);
    ASSERT_NO_FATAL_FAILURE(Take(*ahead)) << i;
  }
  for (std::uint32_t queue = kMoreQueues; queue < kMoreQueuesEnd; ++queue)
    connection_.Send(wire::Marker{.enqueue = {.queue = queue}});
  const auto questions = connection_.log.Questions();
  EXPECT_EQ(questions.size(), kMoreQueuesEnd - kMoreQueues);
  for (const auto& question : questions) ASSERT_NO_FATAL_FAILURE(Take(question));
  ASSERT_TRUE(connection_.log.FromClient(marker));
  const auto ahead = connection_.log.Ahead(release);
  ASSERT_TRUE(ahead);
  ASSERT_NO_FATAL_FAILURE(Take(*ahead));
  EXPECT_EQ(connection_.log.in_flight().requests, 1U);
}

}  // namespace
}  // namespace weir::opencl
