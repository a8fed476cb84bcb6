// SPDX-License-Identifier: Apache-2.0
#include "core/partition/usage.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace weir::core {
namespace {

constexpr ProcessId kFirst{1}, kSecond{2};

TEST(DeviceUsage, CountsWhatIsAllocatedAndWhatRuns) {
  DeviceUsage usage(MiB(100));
  usage.Allocated(kFirst, MiB(30));
  usage.Allocated(kSecond, MiB(20));
  usage.Launched(kFirst, 1000);
  usage.Launched(kSecond, 64);
  EXPECT_EQ(usage.free(), MiB(50));
  EXPECT_EQ(usage.threads(), 1064u);
  usage.Freed(kFirst, MiB(10));
  usage.Finished(kFirst, 1000);
  EXPECT_EQ(usage.free(), MiB(60));
  EXPECT_EQ(usage.used_by(kFirst), MiB(20));
  EXPECT_EQ(usage.threads(), 64u);
  EXPECT_EQ(usage.odd(), 0u);
}

TEST(DeviceUsage, InvalidFreesAreCountedAndIgnored) {
  DeviceUsage usage(MiB(100));
  usage.Allocated(kFirst, MiB(30));
  usage.Freed(kSecond, MiB(30));
  usage.Freed(kFirst, MiB(30));
  usage.Freed(kFirst, MiB(30));
  usage.Finished(kFirst, 64);
  EXPECT_EQ(usage.used(), Bytes{});
  EXPECT_EQ(usage.odd(), 3u);
}

TEST(DeviceUsage, ADisconnectedClientUsesNothing) {
  DeviceUsage usage(MiB(100));
  usage.Allocated(kFirst, MiB(130));
  usage.Launched(kFirst, 10);
  EXPECT_EQ(usage.free(), Bytes{});
  usage.Gone(kFirst);
  EXPECT_EQ(usage.free(), MiB(100));
  EXPECT_EQ(usage.threads(), 0u);
}

RC_GTEST_PROP(DeviceUsageLaw, CountsAreThoseOfARecountOfAllEvents, ()) {
  struct Had {
    std::uint64_t memory = 0, threads = 0;
  };
  DeviceUsage usage(MiB(64));
  std::map<std::uint64_t, Had> owners;
  for (const int event : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5))) {
    const auto owner = *rc::gen::inRange<std::uint64_t>(1, 4);
    const auto amount = *rc::gen::inRange<std::uint64_t>(0, 1000);
    Had& had = owners[owner];
    switch (event) {
      case 0: usage.Allocated(ProcessId{owner}, Bytes{amount}), had.memory += amount; break;
      case 1: usage.Freed(ProcessId{owner}, Bytes{amount}), had.memory -= std::min(amount, had.memory); break;
      case 2: usage.Launched(ProcessId{owner}, amount), had.threads += amount; break;
      case 3: usage.Finished(ProcessId{owner}, amount), had.threads -= std::min(amount, had.threads); break;
      default: usage.Gone(ProcessId{owner}), had = {}; break;
    }
    Had all;
    for (const auto& [id, one] : owners) {
      all.memory += one.memory, all.threads += one.threads;
      RC_ASSERT(usage.used_by(ProcessId{id}).count == one.memory);
    }
    RC_ASSERT(usage.used().count == all.memory);
    RC_ASSERT(usage.threads() == all.threads);
  }
}

}  // namespace
}  // namespace weir::core
