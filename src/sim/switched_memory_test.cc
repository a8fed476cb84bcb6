// SPDX-License-Identifier: Apache-2.0
#include "sim/switched_memory.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

TEST(SwitchedMemory, EntriesOfSlotsThatAnotherUsedAreCopiedAgain) {
  SwitchedMemory memory(16, microseconds(10), microseconds(100));
  const VgpuId a{1}, b{2}, c{3};
  memory.Add(a, 6);
  memory.Add(b, 6);
  memory.Add(c, 6);  // is put where it overlaps least; 4 slots are free
  EXPECT_EQ(memory.Switch(a), microseconds(60));
  EXPECT_EQ(memory.Switch(b), microseconds(60));
  EXPECT_EQ(memory.Switch(a), Duration{});
  EXPECT_EQ(memory.Switch(c), microseconds(60));
  EXPECT_EQ(memory.Switch(a) + memory.Switch(b), microseconds(20)) << "both together overlap it at two";
  EXPECT_EQ(memory.copied(), 20u);
  EXPECT_EQ(memory.copying(), microseconds(200));
}

TEST(SwitchedMemory, WhatDoesNotFitIsReturnedInEachFrame) {
  SwitchedMemory memory(16, microseconds(10), microseconds(100));
  memory.Add(VgpuId{1}, 6);
  EXPECT_EQ(memory.Returns(VgpuId{1}, 6), Duration{});
  EXPECT_EQ(memory.Returns(VgpuId{1}, 9), microseconds(300));
}

}  // namespace
}  // namespace weir::sim
