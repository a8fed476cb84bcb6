// SPDX-License-Identifier: Apache-2.0
// What executors report about their copies, and how long turns become by it.
#include <gtest/gtest.h>

#include <array>

#include "core/memory/slot_turns.h"

namespace weir::core {
namespace {

/// Two vGPUs that hold all slots and compute without an end. How often each got them in 100 s.
struct TwoThatCompute {
  std::array<Duration, 2> copied{};
  Duration each_time{};  // what the first one's executor says that it copied, whenever it gets the slots

  std::array<int, 2> Turns() {
    SlotArena arena(4);
    const SlotRange whole{0, 4};
    SlotTurns turns(4, {.least = milliseconds(100), .copies = 1});
    for (const std::uint64_t id : {1, 2}) EXPECT_TRUE(arena.AddAt(VgpuId{id}, std::span(&whole, 1)).has_value());
    std::array<int, 2> began{};
    std::array<bool, 2> had{};
    Instant now = InstantFromNs(1'000'000'000);
    for (int tenths = 0; tenths < 10'000; ++tenths, now += milliseconds(10)) {
      std::array<SlotNeed, 2> needs;
      for (const std::uint64_t id : {1, 2})
        needs[id - 1] = {.id = VgpuId{id},
                         .wants = 4,
                         .resident = turns.HereOf(VgpuId{id}),
                         .copying = copied[id - 1],
                         .active = now};
      std::vector<VgpuId> changed;
      turns.See(now, arena, needs, changed);
      for (const std::uint64_t id : {1, 2}) {
        const bool has = turns.HereOf(VgpuId{id}) == 4, begins = has && !had[id - 1];
        began[id - 1] += begins ? 1 : 0;
        had[id - 1] = has;
        if (begins && id == 1 && copied[0] < Duration::max() / 2) copied[0] += each_time;
      }
    }
    return began;
  }
};

TEST(SlotTurnsReports, CopiesBeforeTheFirstLookDoNotLengthenTurns) {
  const auto began = TwoThatCompute{.copied = {seconds(3600), seconds(1800)}}.Turns();
  EXPECT_GT(began[0], 400);
  EXPECT_GT(began[1], 400);
}

TEST(SlotTurnsReports, AFalseReportDoesNotKeepOthersAway) {
  for (const Duration said : {Duration(seconds(3600)), Duration::max() / 4}) {
    const auto began = TwoThatCompute{.each_time = said}.Turns();
    EXPECT_GE(began[1], 4) << "a turn of the other one lasts 20 s at most";
  }
  EXPECT_GT((TwoThatCompute{.copied = {Duration::min(), {}}, .each_time = Duration::max()}.Turns()[1]), 4);
}

}  // namespace
}  // namespace weir::core
