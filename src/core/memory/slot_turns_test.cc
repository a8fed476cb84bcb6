// SPDX-License-Identifier: Apache-2.0
#include "core/memory/slot_turns.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "base/prng.h"
#include "core/schedule/policy.h"

namespace weir::core {
namespace {

/// A model of an executor, which evicts and restores contents as ordered, after a delay.
struct ModelExecutor {
  std::uint32_t needs = 0;     // slots that the running or waiting command needs; 0: no command
  std::uint32_t resident = 0;  // actual contents on the device
  std::uint32_t told = 0;      // HereOf at the last order
  Instant done_at{};           // when that order is carried out
  Duration copied{};           // each order takes one delay
  Instant began_at{};          // start of the command's wait
  [[nodiscard]] bool Runs() const { return needs > 0 && resident >= needs; }
};

struct TurnsRig {
  explicit TurnsRig(std::uint32_t slots, const TurnTimes& times = {}, SlotLayout layout = SlotLayout::kContiguous)
      : arena(slots, layout), turns(slots, times) {}

  void Add(std::uint64_t id, SlotRange range) {
    ASSERT_TRUE(arena.AddAt(VgpuId{id}, std::span(&range, range.count > 0 ? 1 : 0)).has_value());
    executors[VgpuId{id}];
  }
  ModelExecutor& Of(std::uint64_t id) { return executors.at(VgpuId{id}); }
  void Needs(std::uint64_t id, std::uint32_t slots) {
    Of(id).needs = slots;
    Of(id).began_at = now;
  }

  /// Executors carry out their orders, then SlotTurns looks once.
  void Look() {
    needs.clear();
    for (auto& [id, executor] : executors) {
      const bool done = now >= executor.done_at;
      if (done) {
        executor.resident = std::min(executor.resident, executor.told);
        // Contents for assigned slots are restored when all of them fit, or ahead of that.
        executor.resident = std::max(executor.resident, std::min(executor.needs, executor.told));
      }
      needs.push_back({.id = id,
                       .wants = executor.needs,
                       .must = executor.Runs() ? 0 : executor.needs,
                       .resident = executor.resident,
                       .copying = executor.copied,
                       .active = executor.Runs() ? now : executor.began_at,
                       .done = done});
    }
    changed.clear();
    next = turns.See(now, arena, needs, changed);
    for (const VgpuId id : changed) {
      const auto found = executors.find(id);
      if (found == executors.end()) continue;
      found->second.told = turns.HereOf(id);
      found->second.done_at = now + delay;
      found->second.copied += delay;
    }
    orders += changed.size();
  }
  void Run(Duration span, Duration step = milliseconds(1)) {
    for (const Instant until = now + span; now < until; now += step) Look();
  }

  SlotArena arena;
  SlotTurns turns;
  std::map<VgpuId, ModelExecutor> executors;
  std::vector<SlotNeed> needs;
  std::vector<VgpuId> changed;
  Duration delay = milliseconds(5);
  Instant now = InstantFromNs(1'000'000'000);
  Instant next{};
  std::uint64_t orders = 0;
};

TEST(SlotTurns, AnUnsharedVgpuIsAssignedAllItsSlots) {
  TurnsRig rig(8);
  rig.Add(1, {0, 3});
  rig.Add(2, {3, 5});
  rig.Look();
  EXPECT_EQ(rig.turns.HereOf(VgpuId{1}), 3u);
  EXPECT_EQ(rig.turns.HereOf(VgpuId{2}), 5u);
  rig.orders = 0;
  rig.Needs(1, 3);
  rig.Needs(2, 5);
  rig.Run(seconds(5));
  EXPECT_EQ(rig.orders, 0u);
  EXPECT_EQ(rig.next, kNever);
}

TEST(SlotTurns, ASharedSlotIsAssignedOnDemand) {
  TurnsRig rig(4);
  rig.Add(1, {0, 3});
  rig.Add(2, {2, 2});
  rig.Look();
  EXPECT_EQ(rig.turns.HereOf(VgpuId{1}), 2u);
  EXPECT_EQ(rig.turns.HereOf(VgpuId{2}), 1u);
  EXPECT_EQ(rig.turns.OwnerOf(2), VgpuId{});
  rig.Needs(2, 2);
  rig.Look();
  EXPECT_EQ(rig.turns.OwnerOf(2), VgpuId{2});
}

TEST(SlotTurns, ASlotIsAssignedOnlyAfterItsOwnerReleasedIt) {
  TurnsRig rig(4);
  rig.Add(1, {0, 4});
  rig.Add(2, {0, 4});
  rig.Needs(1, 4);
  rig.Run(milliseconds(100));
  ASSERT_TRUE(rig.Of(1).Runs());
  rig.Needs(1, 0);         // at rest, with contents on the device
  rig.delay = seconds(3);  // a slow eviction
  rig.Needs(2, 4);
  rig.Run(seconds(2));
  EXPECT_EQ(rig.turns.HereOf(VgpuId{1}), 0u);
  EXPECT_EQ(rig.turns.HereOf(VgpuId{2}), 0u) << "the slots are leaving";
  EXPECT_TRUE(rig.turns.Leaving(0));
  EXPECT_TRUE(rig.turns.Waits(VgpuId{2}));
  rig.delay = milliseconds(1);
  rig.Run(seconds(2));
  EXPECT_EQ(rig.turns.HereOf(VgpuId{2}), 4u);
  EXPECT_TRUE(rig.Of(2).Runs());
}

TEST(SlotTurns, TwoThatComputeTakeTurnsOfTheLeastLength) {
  TurnsRig rig(4, {.least = milliseconds(200), .copies = 1});
  rig.Add(1, {0, 3});
  rig.Add(2, {1, 3});
  rig.Needs(1, 3);
  rig.Needs(2, 3);
  std::map<std::uint64_t, int> ran;
  for (int ms = 0; ms < 10'000; ++ms) {
    rig.Run(milliseconds(1));
    ASSERT_FALSE(rig.Of(1).Runs() && rig.Of(2).Runs());
    for (const std::uint64_t id : {1, 2}) ran[id] += rig.Of(id).Runs() ? 1 : 0;
  }
  EXPECT_NEAR(ran[1], ran[2], 300);
  EXPECT_GT(ran[1] + ran[2], 9'300) << "a switch takes two delays, of 5 ms each";
  EXPECT_NEAR(static_cast<double>(rig.turns.switches()), 10'000.0 / 212, 5);
}

TEST(SlotTurns, ATurnIsTheLongerTheMoreASwitchTakes) {
  TurnsRig rig(4, {.least = milliseconds(1), .copies = 9});
  rig.delay = milliseconds(50);
  rig.Add(1, {0, 4});
  rig.Add(2, {0, 4});
  rig.Needs(1, 4);
  rig.Needs(2, 4);
  int ran = 0;
  rig.Run(seconds(5));
  for (int ms = 0; ms < 20'000; ++ms) {
    rig.Run(milliseconds(1));
    ran += rig.Of(1).Runs() || rig.Of(2).Runs() ? 1 : 0;
  }
  EXPECT_NEAR(ran / 20'000.0, 0.95, 0.02) << "switches take a tenth, and who is to leave computes on for half of that";
}

TEST(SlotTurns, AnIdleVgpuYieldsAtOnceButNotInAShortPause) {
  TurnsRig rig(4, {.least = seconds(10), .copies = 1});
  rig.Add(1, {0, 4});
  rig.Add(2, {0, 4});
  rig.Needs(1, 4);
  rig.Run(milliseconds(50));
  rig.Needs(1, 0);
  rig.Of(1).began_at = rig.now;
  rig.Needs(2, 4);
  rig.Run(milliseconds(1));
  EXPECT_FALSE(rig.turns.Leaving(0));
  rig.Run(milliseconds(50));
  EXPECT_TRUE(rig.Of(2).Runs()) << "and not after ten seconds";
}

TEST(SlotTurns, AComputingVgpuIsNotInterruptedForTooFewSlots) {
  TurnsRig rig(6, {.least = milliseconds(100), .copies = 1});
  rig.Add(1, {0, 2});
  rig.Add(2, {4, 2});
  rig.Add(3, {0, 6});
  rig.Needs(1, 2);
  rig.Run(milliseconds(500));  // its turn has been over for long
  rig.Needs(2, 2);
  rig.Run(milliseconds(20));
  rig.Needs(3, 6);
  rig.Run(milliseconds(30));
  EXPECT_TRUE(rig.Of(1).Runs()) << "vGPU 2 has its turn, so that vGPU 3 could not run without these";
  EXPECT_EQ(rig.turns.HereOf(VgpuId{3}), 2u) << "but it has what is free, and restores ahead";
  rig.Run(milliseconds(200));
  EXPECT_TRUE(rig.Of(3).Runs() || rig.Of(1).Runs());
}

TEST(SlotTurns, SlotsTooFewForOneVgpuServeAnother) {
  TurnsRig rig(6, {.least = seconds(2), .copies = 1});
  rig.Add(1, {0, 2});
  rig.Add(2, {0, 6});
  rig.Add(3, {2, 4});
  rig.Needs(1, 2);
  rig.Run(milliseconds(50));
  rig.Needs(2, 6);
  rig.Run(milliseconds(50));
  ASSERT_FALSE(rig.Of(2).Runs());
  EXPECT_EQ(rig.turns.HereOf(VgpuId{2}), 4u) << "what is free, ahead";
  rig.Needs(3, 4);
  rig.Run(milliseconds(50));
  EXPECT_TRUE(rig.Of(3).Runs()) << "vGPU 2 can't run before vGPU 1's turn is over";
  rig.Run(seconds(5));
  EXPECT_GT(rig.turns.switches(), 3u);
}

TEST(SlotTurns, AVgpuThatNeedsMoreKeepsItsTurn) {
  TurnsRig rig(6, {.least = seconds(1), .copies = 1});
  rig.Add(1, {0, 4});
  rig.Add(2, {2, 4});
  rig.Needs(1, 3);
  rig.Run(milliseconds(20));
  ASSERT_TRUE(rig.Of(1).Runs());
  rig.Needs(2, 4);
  rig.Run(milliseconds(20));
  ASSERT_FALSE(rig.Of(2).Runs());
  rig.Needs(1, 4);
  rig.Run(milliseconds(20));
  EXPECT_TRUE(rig.Of(1).Runs());
  EXPECT_FALSE(rig.Of(2).Runs());
}

TEST(SlotTurns, InterruptingSwitchesRunOneAtATimeWithGaps) {
  TurnsRig rig(4, {.least = milliseconds(10), .copies = 5});
  for (const std::uint64_t id : {1, 2}) rig.Add(id, {0, 2});
  for (const std::uint64_t id : {3, 4}) rig.Add(id, {2, 2});
  for (const std::uint64_t id : {1, 2, 3, 4}) rig.Needs(id, 2);
  rig.Run(seconds(2));
  rig.delay = milliseconds(20);
  int idle = 0;
  const std::uint64_t before = rig.turns.switches();
  for (int ms = 0; ms < 10'000; ++ms) {
    rig.Run(milliseconds(1));
    idle += rig.Of(1).Runs() || rig.Of(2).Runs() || rig.Of(3).Runs() || rig.Of(4).Runs() ? 0 : 1;
  }
  EXPECT_EQ(idle, 0) << "while two change places the other two's one computes";
  // A switch takes two delays, and five times its copy time, which is at least one delay, passes before the next
  // switch.
  EXPECT_LT(static_cast<double>(rig.turns.switches() - before), 10'000.0 / (2 * 20 + 5 * 20));
  EXPECT_GT(rig.turns.switches() - before, 30u);
}

TEST(SlotTurns, ScatteredPlacementAcceptsAnySlots) {
  TurnsRig rig(6, {.least = milliseconds(100), .copies = 1}, SlotLayout::kScattered);
  rig.Add(1, {0, 2});
  rig.Add(2, {2, 3});
  rig.Add(3, {1, 3});  // shares slots with both
  rig.Needs(1, 2);
  rig.Needs(2, 3);
  rig.Run(milliseconds(300));
  rig.Needs(3, 3);
  rig.Look();
  EXPECT_EQ(rig.turns.HereOf(VgpuId{1}), 0u);
  EXPECT_EQ(rig.turns.HereOf(VgpuId{2}), 3u) << "one of them suffices";
  rig.Run(milliseconds(10));
  EXPECT_EQ(rig.turns.HereOf(VgpuId{3}), 3u);
  EXPECT_EQ(rig.arena.RangesOf(VgpuId{3}), (std::vector<SlotRange>{{0, 2}, {5, 1}}));
}

TEST(SlotTurns, AVgpuThatCouldUseFewerSlotsGetsTurns) {
  SlotArena arena(4);
  const SlotRange whole{0, 4};
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(arena.AddAt(VgpuId{id}, std::span(&whole, 1)).has_value());
  SlotTurns turns(4, {.least = milliseconds(100), .copies = 1});
  std::map<std::uint64_t, int> had;
  std::vector<VgpuId> changed;
  Instant now = InstantFromNs(1'000'000'000);
  for (int ms = 0; ms < 2000; ++ms, now += milliseconds(1)) {
    std::vector<SlotNeed> needs;  // both run with their own slots, and evict their own buffers for each command
    for (const std::uint64_t id : {1, 2})
      needs.push_back({.id = VgpuId{id}, .wants = 4, .resident = turns.HereOf(VgpuId{id}), .active = now});
    turns.See(now, arena, needs, changed);
    for (const std::uint64_t id : {1, 2}) had[id] += turns.HereOf(VgpuId{id}) == 4 ? 1 : 0;
  }
  EXPECT_NEAR(had[1], 1000, 100);
  EXPECT_NEAR(had[2], 1000, 100);
}

TEST(SlotTurns, AVgpuRunsOnceItsNeededSlotsAreAssigned) {
  SlotArena arena(4);
  const SlotRange whole{0, 4}, first{0, 1};
  ASSERT_TRUE(arena.AddAt(VgpuId{1}, std::span(&first, 1)).has_value());
  ASSERT_TRUE(arena.AddAt(VgpuId{2}, std::span(&whole, 1)).has_value());
  const SlotRange rest{1, 3};
  ASSERT_TRUE(arena.AddAt(VgpuId{3}, std::span(&rest, 1)).has_value());
  SlotTurns turns(4, {.least = milliseconds(100), .copies = 1});
  std::vector<VgpuId> changed;
  Instant now = InstantFromNs(1'000'000'000);
  const auto look = [&](std::uint32_t must) {
    now += milliseconds(1);
    turns.See(now, arena,
              std::vector<SlotNeed>{{.id = VgpuId{1}, .wants = 1, .active = now},
                                    {.id = VgpuId{2}, .wants = must == 0 ? 0U : 4U, .must = must, .active = now},
                                    {.id = VgpuId{3}, .wants = 3, .active = now - seconds(10)}},
              changed);
  };
  look(0);
  now += milliseconds(150);  // the first one's turn is over
  look(0);
  look(1);
  look(1);
  EXPECT_GE(turns.HereOf(VgpuId{2}), 1u);
}

TEST(SlotTurns, SlotsNoLongerHeldAreRevoked) {
  TurnsRig rig(4);
  rig.Add(1, {0, 4});
  rig.Needs(1, 4);
  rig.Run(milliseconds(20));
  ASSERT_TRUE(rig.arena.Reduce(VgpuId{1}, 2).has_value());
  rig.Run(milliseconds(20));
  EXPECT_EQ(rig.turns.HereOf(VgpuId{1}), 2u);
  EXPECT_EQ(rig.Of(1).resident, 2u);
}

TEST(SlotTurns, ARemovedVgpusSlotsGoToOthers) {
  TurnsRig rig(4, {.least = seconds(100), .copies = 1});
  rig.Add(1, {0, 4});
  rig.Add(2, {0, 4});
  rig.Needs(1, 4);
  rig.Run(milliseconds(20));
  rig.Needs(2, 4);
  rig.Run(milliseconds(20));
  ASSERT_FALSE(rig.Of(2).Runs());
  rig.executors.erase(VgpuId{1});  // its executor was killed; the vGPU still holds slots
  rig.Run(milliseconds(20));
  EXPECT_TRUE(rig.Of(2).Runs());
}

TEST(SlotTurns, AnExecutorOfAnEarlierDaemonIsAccountedFor) {
  TurnsRig rig(4);
  rig.Add(1, {0, 4});
  rig.Add(2, {0, 4});
  rig.Of(1).resident = rig.Of(1).told = 4;  // state from the previous SlotTurns
  rig.Of(1).done_at = rig.now + seconds(1);
  rig.Needs(2, 4);
  rig.Look();
  EXPECT_EQ(rig.turns.HereOf(VgpuId{2}), 0u) << "the device is full";
  for (int i = 0; i < 3000; ++i) {
    rig.Run(milliseconds(1));
    ASSERT_LE(rig.Of(1).resident + rig.Of(2).resident, 4u);
    if (i == 1000) rig.Of(1).told = 0;  // it adopts what the new SlotTurns says
  }
  EXPECT_TRUE(rig.Of(2).Runs());
}

TEST(SlotTurns, AVgpuThatClaimsToWaitForeverGetsOneTurn) {
  TurnsRig rig(2);
  rig.Add(1, {0, 2});
  rig.Add(2, {0, 2});
  rig.Needs(1, 2);
  const auto liar = [&] {  // has its slots and never runs
    rig.Of(1).needs = 3;
    rig.Of(1).began_at = rig.now;
  };
  liar();
  rig.Run(milliseconds(20));
  rig.Needs(2, 2);
  int ran = 0;
  for (int i = 0; i < 15'000; ++i) {
    rig.Run(milliseconds(1));
    ran += rig.Of(2).Runs() ? 1 : 0;
  }
  EXPECT_GT(ran, 200);
}

// == Laws ============================================================================================================

/// Ranges that overlap in all ways, executors that answer late, and changing needs.
RC_GTEST_PROP(SlotTurnsLaws, ResidentSlotsFitTheDeviceAndEveryVgpuIsServed, (std::uint64_t seed)) {
  Prng random(seed);
  const auto below = [&random](std::uint64_t n) { return static_cast<std::uint32_t>(random.Next() % n); };
  const std::uint32_t slots = 2 + below(12), members = 1 + below(6);
  TurnsRig rig(slots, {.least = milliseconds(1 + below(50)), .copies = 1.0 + below(4)},
               below(2) == 0 ? SlotLayout::kContiguous : SlotLayout::kScattered);
  for (std::uint32_t id = 1; id <= members; ++id) {
    const std::uint32_t first = below(slots);
    rig.Add(id, {first, 1 + below(slots - first)});
  }
  std::map<std::uint64_t, Instant> waits_since;
  for (int step = 0; step < 6000; ++step) {
    rig.delay = milliseconds(below(20));
    if (below(40) == 0) {
      const std::uint64_t id = 1 + below(members);
      rig.Needs(id, below(rig.arena.CountOf(VgpuId{id}) + 1));
    }
    if (below(400) == 0) {
      const VgpuId id{1 + below(members)};
      const std::uint32_t held = rig.arena.CountOf(id);
      if (below(2) == 0 && held < slots)
        static_cast<void>(rig.arena.Expand(id, 1));
      else if (held > 1)
        static_cast<void>(rig.arena.Reduce(id, 1));
      ModelExecutor& executor = rig.executors.at(id);
      executor.needs = std::min(executor.needs, rig.arena.CountOf(id));
    }
    rig.Run(milliseconds(1));
    std::uint64_t resident = 0;
    std::map<VgpuId, std::uint32_t> here;
    for (std::uint32_t i = 0; i < slots; ++i)
      if (rig.turns.OwnerOf(i) && !rig.turns.Leaving(i)) {
        ++here[rig.turns.OwnerOf(i)];
        RC_ASSERT(rig.arena.Holds(rig.turns.OwnerOf(i), i));
      }
    for (const auto& [id, executor] : rig.executors) {
      resident += executor.resident;
      RC_ASSERT(rig.turns.HereOf(id) == here[id]);
      RC_ASSERT(rig.turns.HereOf(id) <= rig.arena.CountOf(id));
      if (executor.needs == 0 || executor.Runs()) {
        waits_since[id.value] = rig.now;
      } else {
        // The longest turn of each other vGPU: turns, switches, and a late answer to each.
        RC_ASSERT(rig.now - waits_since.try_emplace(id.value, rig.now).first->second < seconds(2) * members);
      }
    }
    RC_ASSERT(resident <= slots);
  }
}

/// Starting from the same state with one waiting vGPU: revoked contents are copied out, and in again later.
RC_GTEST_PROP(SlotTurnsLaws, ScatteredServesWheneverContiguousDoesWithoutMoreCopies, (std::uint64_t seed)) {
  Prng random(seed);
  const auto below = [&random](std::uint64_t n) { return static_cast<std::uint32_t>(random.Next() % n); };
  const std::uint32_t slots = 2 + below(14), members = 2 + below(6);
  TurnsRig rig(slots, {.least = milliseconds(1 + below(50)), .copies = 1.0 + below(4)});
  SlotArena scattered(slots, SlotLayout::kScattered);
  for (std::uint32_t id = 1; id <= members; ++id) {
    const std::uint32_t first = below(slots);
    const SlotRange range{first, 1 + below(slots - first)};
    rig.Add(id, range);
    RC_ASSERT(scattered.AddAt(VgpuId{id}, std::span(&range, 1)).has_value());
  }
  for (int step = 0; step < 20; ++step) {
    const std::uint64_t id = 2 + below(members - 1);
    rig.Needs(id, below(rig.arena.CountOf(VgpuId{id}) + 1));
    rig.Run(milliseconds(below(100)));
  }
  std::vector<SlotNeed> needs;  // all vGPUs except the first have what they want
  for (std::uint32_t id = 2; id <= members; ++id) {
    const std::uint32_t here = rig.turns.HereOf(VgpuId{id});
    needs.push_back({.id = VgpuId{id}, .wants = here, .resident = here, .active = rig.now});
  }
  needs.push_back({.id = VgpuId{1}});
  SlotTurns one = rig.turns, other = rig.turns;
  rig.now += milliseconds(below(400));
  std::vector<VgpuId> changed;
  for (const std::uint32_t wants : {0U, rig.arena.CountOf(VgpuId{1})}) {
    for (SlotNeed& need : needs) {
      need.active = rig.now;
      if (need.id == VgpuId{1}) need.wants = need.must = wants;
    }
    one.See(rig.now, rig.arena, needs, changed);
    if (wants == 0) other = one;  // no slot is being revoked any more
    rig.now += milliseconds(1);
  }
  rig.now -= milliseconds(1);
  other.See(rig.now, scattered, needs, changed);
  const auto leaving = [&](const SlotTurns& turns) {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < slots; ++i) count += turns.Leaving(i) ? 1 : 0;
    return count;
  };
  const auto has = [&](const SlotTurns& turns) { return turns.HereOf(VgpuId{1}) + leaving(turns); };
  if (has(one) < rig.arena.CountOf(VgpuId{1})) return;  // not served
  RC_TAG(leaving(one) > 0 ? "interrupts" : "free");
  RC_ASSERT(has(other) >= scattered.CountOf(VgpuId{1}));
  RC_ASSERT(leaving(other) <= leaving(one));
  RC_ASSERT(scattered.CountOf(VgpuId{1}) == rig.arena.CountOf(VgpuId{1}));
}

RC_GTEST_PROP(SlotTurnsLaws, NoOrdersWithoutWaitingVgpus, (std::uint64_t seed)) {
  Prng random(seed);
  TurnsRig rig(10);
  for (std::uint64_t id = 1; id <= 4; ++id) rig.Add(id, {static_cast<std::uint32_t>(random.Next() % 6), 4});
  rig.Run(milliseconds(50));
  for (std::uint64_t id = 1; id <= 4; ++id) rig.Needs(id, rig.turns.HereOf(VgpuId{id}));
  rig.orders = 0;
  rig.Run(milliseconds(200));
  RC_ASSERT(rig.orders == 0u);
}

}  // namespace
}  // namespace weir::core
