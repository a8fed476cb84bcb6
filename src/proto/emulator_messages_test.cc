// SPDX-License-Identifier: Apache-2.0
#include "proto/emulator_messages.h"

#include <gtest/gtest.h>

#include "tests/harness/golden.h"

namespace weir::proto::emulator {
namespace {

const Submit kSubmit{{{.device = 1, .queue = 2, .tag = 3, .engine = 1, .units = 4, .work_ns = 5, .bytes = 6}, {}}};
const Completed kCompleted{{{.tag = 7, .began_ns = -8, .ended_ns = 9, .busy_ns = 10, .ending = Ending::kLost}}};

TEST(EmulatorMessages, KeepTheirGoldenBytes) {
  std::vector<std::byte> all;
  for (const Message& message :
       {Message(Hello{.program = "glmark2"}), Message(Welcome{"{}"}), Message(Refusal{"no"}), Message(kSubmit),
        Message(Present{1, 2, 3, 4}), Message(kCompleted), Message(Allocate{1, 2, 3}),
        Message(Allocated{1, Room::kTaken}), Message(Free{1, 2}), Message(AskAccounts{}), Message(Accounts{"[]"})}) {
    const auto bytes = Encode(message);
    const auto again = Decode(bytes);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->index(), message.index());
    EXPECT_EQ(Encode(*again), bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  testing::ExpectGolden("emulator_v1.hex", all);
}

const Use kUse{.compute_ns = 1,
               .copy_in_ns = 2,
               .copy_out_ns = 3,
               .memory_used = 4,
               .more = 1,
               .clients = {{.client = 5, .pid = -6, .compute_ns = 7, .copy_in_ns = 8, .copy_out_ns = 9}, {}}};

TEST(EmulatorMessages, TheAccountByClientKeepsItsGoldenBytes) {
  std::vector<std::byte> all;
  for (const Message& message : {Message(AskUse{1, 2}), Message(kUse), Message(Use{})}) {
    const auto bytes = Encode(message);
    const auto again = Decode(bytes);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(Encode(*again), bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(std::get<Use>(*Decode(Encode(kUse))).clients, kUse.clients);
  testing::ExpectGolden("emulator_v1_use.hex", all);
}

TEST(EmulatorMessages, FieldsComeBackAsTheyWere) {
  EXPECT_EQ(std::get<Submit>(*Decode(Encode(kSubmit))).commands, kSubmit.commands);
  EXPECT_EQ(std::get<Completed>(*Decode(Encode(kCompleted))).completions, kCompleted.completions);
}

TEST(EmulatorMessages, AMessageOfAnotherLengthIsRefused) {
  for (const Message& message :
       {Message(kSubmit), Message(kCompleted), Message(Present{}), Message(Welcome{"text"}), Message(kUse)}) {
    auto bytes = Encode(message);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(Decode(bytes));
    bytes.resize(bytes.size() - 2);
    EXPECT_FALSE(Decode(bytes));
  }
  EXPECT_FALSE(Decode({}));
  EXPECT_FALSE(Decode(std::vector<std::byte>(kMessageBytesMax + 1)));
}

}  // namespace
}  // namespace weir::proto::emulator
