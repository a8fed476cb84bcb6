// SPDX-License-Identifier: Apache-2.0
#include "core/memory/others_memory.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

struct Looks {
  bool See(std::uint64_t used, std::uint64_t ours) {
    now += milliseconds(500);
    return others.See(now, MiB(used), MiB(ours));
  }
  OthersMemory others;
  Instant now = InstantFromNs(1'000'000'000);
};

TEST(OthersMemory, IsForeignUsageInWholeSlots) {
  Looks looks;
  EXPECT_FALSE(looks.See(1000, 400));
  EXPECT_FALSE(looks.See(1000, 400));
  EXPECT_TRUE(looks.See(1000, 400));
  EXPECT_EQ(looks.others.slots(), 10U) << "600 MiB are 9.4 slots";
  EXPECT_FALSE(looks.See(1000, 400)) << "nothing has changed";
  EXPECT_FALSE(looks.See(1300, 700)) << "what is more is ours";
}

TEST(OthersMemory, IgnoresDifferencesInReadingTimes) {
  Looks looks;
  for (int i = 0; i < 5; ++i) looks.See(640, 0);
  EXPECT_EQ(looks.others.slots(), 10U);
  // 4 GiB of an executor's memory are on the device before the executor has reported them.
  EXPECT_FALSE(looks.See(4736, 0));
  EXPECT_FALSE(looks.See(4736, 2048));
  EXPECT_FALSE(looks.See(4736, 4096));
  // The executor has reported them before they are on the device.
  EXPECT_FALSE(looks.See(640, 4096));
  EXPECT_EQ(looks.others.slots(), 10U);
}

TEST(OthersMemory, IsReturnedAfterItWasFreeForAWhile) {
  Looks looks;
  for (int i = 0; i < 3; ++i) looks.See(640, 0);
  const Instant full = looks.now;
  int changes = 0;
  while (looks.now - full < OthersMemory::kFreeFor - milliseconds(500)) changes += looks.See(128, 0) ? 1 : 0;
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(looks.others.slots(), 10U);
  EXPECT_TRUE(looks.See(64, 0));
  EXPECT_EQ(looks.others.slots(), 2U) << "the most that they held meanwhile";
}

TEST(OthersMemory, StaysReservedWhenItReturnsSoon) {
  Looks looks;
  for (int i = 0; i < 3; ++i) looks.See(640, 0);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(looks.See(64, 0));
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(looks.See(640, 0));
  }
  EXPECT_EQ(looks.others.slots(), 10U);
}

TEST(OthersMemory, IsNeverNegative) {
  Looks looks;
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(looks.See(64, 640));
  EXPECT_EQ(looks.others.slots(), 0U);
  Bytes all{~std::uint64_t{0}};
  for (int i = 0; i < 3; ++i) looks.others.See(looks.now, all, Bytes{});
  EXPECT_EQ(looks.others.slots(), ~std::uint32_t{0}) << "a device that says anything";
}

}  // namespace
}  // namespace weir::core
