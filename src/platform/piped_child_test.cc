// SPDX-License-Identifier: Apache-2.0
#include "platform/piped_child.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/code_of.h"

namespace weir::platform {
namespace {

using weir::testing::CodeOf;

TEST(PipedChild, ExchangesLargeAmountsOfData) {
  auto child = PipedChild::Start({"/bin/cat"});
  ASSERT_TRUE(child) << child.error().message;
  std::vector<std::byte> sent(50'000), back(sent.size());
  for (int round = 0; round < 20; ++round) {
    std::ranges::fill(sent, static_cast<std::byte>(round));
    ASSERT_TRUE(child->Send(sent, seconds(10)));
    ASSERT_TRUE(child->Receive(back, seconds(10)));
    ASSERT_EQ(back, sent);
  }
}

TEST(PipedChild, AnEndedOrSilentChildIsAnError) {
  auto child = PipedChild::Start({"/bin/true"});
  ASSERT_TRUE(child);
  std::vector<std::byte> some(10);
  EXPECT_EQ(CodeOf(child->Receive(some, seconds(10))), Errc::kUnavailable);
  EXPECT_EQ(CodeOf(child->Send(some, seconds(10))), Errc::kUnavailable);
  auto silent = PipedChild::Start({"/bin/cat"});
  ASSERT_TRUE(silent);
  EXPECT_EQ(CodeOf(silent->Receive(some, milliseconds(20))), Errc::kTimeout);
  EXPECT_EQ(CodeOf(PipedChild::Start({"/nowhere/to/be/found"})), Errc::kNotFound);
}

}  // namespace
}  // namespace weir::platform
