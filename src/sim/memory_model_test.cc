// SPDX-License-Identifier: Apache-2.0
#include "sim/memory_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace weir::sim {
namespace {

constexpr double kSlotASecond = 64.0 * 1024 * 1024;  // rate of a link that copies one slot per second
constexpr Instant kStart = InstantFromNs(1'000'000'000);

RC_GTEST_PROP(MemoryModelLaw, NobodyHoldsMoreThanItsLimitAndAllNoMoreThanTheDevice, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 20);
  MemoryModel memory(MiB(64 * slots), kSlotASecond);
  std::vector<Holding> all(3);
  for (Holding& one : all) one.footprint = *rc::gen::inRange<std::uint32_t>(0, 20);
  const auto steps = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 90));
  for (const std::uint32_t step : steps) {
    Holding& one = all[step % 3];
    const Holding before = one;
    if (step < 60) {
      RC_ASSERT(memory.Touch(kStart, one).copied == before.footprint - before.resident);
      RC_ASSERT(one.resident >= before.resident);
    } else if (step < 85) {
      memory.Limit(one, step - 60);
    } else {
      memory.Release(one);
    }
    std::uint32_t used = 0;
    for (const Holding& each : all) {
      used += each.resident;
      RC_ASSERT(each.resident <= each.footprint);
      RC_ASSERT(each.limit == 0 || each.resident <= each.limit);
    }
    RC_ASSERT(used == memory.used());
    RC_ASSERT(used <= slots);
  }
}

TEST(MemoryModel, WhatIsThereIsNotCopiedAgain) {
  MemoryModel memory(MiB(512), kSlotASecond);
  Holding one{.footprint = 4};
  EXPECT_EQ(memory.Touch(kStart, one).there, kStart + seconds(4));
  EXPECT_EQ(memory.Touch(kStart + seconds(9), one).there, kStart + seconds(9));
}

TEST(MemoryModel, WhatIsOverTheLimitIsCopiedForEachFrame) {
  MemoryModel memory(MiB(512), kSlotASecond);
  Holding one{.footprint = 4, .limit = 3};
  EXPECT_EQ(memory.Touch(kStart, one).copied, 4u);
  EXPECT_EQ(memory.Touch(kStart + seconds(9), one).copied, 1u);
  memory.Limit(one, 1);
  EXPECT_EQ(memory.Touch(kStart + seconds(19), one).copied, 3u);
  memory.Limit(one, 0);
  EXPECT_EQ(memory.Touch(kStart + seconds(29), one).copied, 3u);
  EXPECT_EQ(memory.Touch(kStart + seconds(39), one).copied, 0u);
}

TEST(MemoryModel, CopiesGoOverTheLinkOneAfterTheOther) {
  MemoryModel memory(Bytes{}, kSlotASecond);
  Holding one{.footprint = 2}, other{.footprint = 3};
  EXPECT_EQ(memory.Touch(kStart, one).there, kStart + seconds(2));
  EXPECT_EQ(memory.Touch(kStart + seconds(1), other).there, kStart + seconds(5));
}

TEST(MemoryModel, WhatIsReleasedIsAnothers) {
  MemoryModel memory(MiB(256 + 63), kSlotASecond);
  Holding one{.footprint = 4}, other{.footprint = 2};
  memory.Touch(kStart, one);
  memory.Touch(kStart, other);
  EXPECT_EQ(other.resident, 0u);
  memory.Release(one);
  memory.Touch(kStart, other);
  EXPECT_EQ(other.resident, 2u);
}

}  // namespace
}  // namespace weir::sim
