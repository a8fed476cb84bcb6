// SPDX-License-Identifier: Apache-2.0
#include "core/memory/residency.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

namespace weir::core {
namespace {

/// A device that does carry out what is planned: contents are version numbers, copied as the plan says and no oftener.
/// A resident slot's copy in host memory is what it was when it was last copied.
struct CopiedDevice {
  using Place = std::pair<VgpuId, std::uint32_t>;

  explicit CopiedDevice(SlotArena& slots) : arena(slots), residency(slots.slots()), device(slots.slots(), 0) {}

  void Evict(const std::vector<SlotCopy>& copies) {
    for (const SlotCopy& copy : copies) {
      if (copy.copied) host[{copy.vgpu, copy.slot}] = device[copy.slot];
      device[copy.slot] = 0;
    }
  }
  void Restore(const std::vector<SlotCopy>& copies) {
    for (const SlotCopy& copy : copies)
      if (copy.copied) device[copy.slot] = host[{copy.vgpu, copy.slot}];
  }
  ResidencyPlan Switch(VgpuId runs, VgpuId next = {}, bool ahead = true) {
    ResidencyPlan plan = residency.Plan(arena, runs, next);
    Evict(plan.evict);
    Restore(plan.restore);
    if (ahead) Evict(plan.evict_ahead);
    if (ahead) Restore(plan.restore_ahead);
    RC_ASSERT(residency.Done(plan, ahead).has_value());
    return plan;
  }
  void Write(VgpuId id, std::uint32_t slot) {
    RC_ASSERT(residency.Wrote(id, {slot, 1}).has_value());
    device[slot] = written[{id, slot}] = ++version;
  }
  void Follow() {
    Evict(residency.Follow(arena));
    for (auto at = written.begin(); at != written.end();) {
      const auto& [place, contents] = *at;
      if (arena.Holds(place.first, place.second)) {
        ++at;
        continue;
      }
      RC_ASSERT(host[place] == contents);  // what is given up is in host memory
      host.erase(place);
      at = written.erase(at);
    }
  }
  /// Nobody's contents are lost: each is where it is said to be.
  void MustHaveAll() {
    for (const auto& [place, contents] : written) {
      const auto& [id, slot] = place;
      if (residency.OwnerOf(slot) == id) {
        RC_ASSERT(device[slot] == contents);
        RC_ASSERT(residency.Dirty(slot) || host[place] == contents);
      } else {
        RC_ASSERT(residency.InHost(id, slot));
        RC_ASSERT(host[place] == contents);
      }
    }
  }
  void MustBeThere(VgpuId id) {
    arena.ForEachSlot(id, [&](std::uint32_t slot) {
      RC_ASSERT(residency.OwnerOf(slot) == id);
      const auto contents = written.find({id, slot});
      if (contents != written.end()) RC_ASSERT(device[slot] == contents->second);
    });
    RC_ASSERT(residency.ResidentOf(id) == arena.CountOf(id));
  }

  SlotArena& arena;
  Residency residency;
  std::vector<std::uint64_t> device;  // by slot
  std::map<Place, std::uint64_t> host, written;
  std::uint64_t version = 0;
};

SlotArena TwoOverlapping() {  // 0 … 5 and 4 … 9
  SlotArena arena(12);
  const SlotRange one{0, 6}, other{4, 6};
  EXPECT_TRUE(arena.AddAt(VgpuId{1}, std::span(&one, 1)).has_value());
  EXPECT_TRUE(arena.AddAt(VgpuId{2}, std::span(&other, 1)).has_value());
  return arena;
}

TEST(Residency, TwoByTurnsCopyExactlyTheirOverlap) {
  SlotArena arena = TwoOverlapping();
  CopiedDevice device(arena);
  EXPECT_EQ(device.Switch(VgpuId{1}).copies_in, 0U);  // there is nothing yet
  for (std::uint32_t slot = 0; slot < 6; ++slot) device.Write(VgpuId{1}, slot);
  const ResidencyPlan first = device.Switch(VgpuId{2});
  EXPECT_EQ(first.copies_out, 2U);
  EXPECT_EQ(first.copies_in, 0U);
  for (std::uint32_t slot = 4; slot < 10; ++slot) device.Write(VgpuId{2}, slot);
  for (std::uint64_t turn = 1; turn < 10; ++turn) {
    const VgpuId runs{turn % 2 == 0 ? 2U : 1U};
    const ResidencyPlan plan = device.Switch(runs);
    EXPECT_EQ(plan.copies_out, 2U);
    EXPECT_EQ(plan.copies_in, 2U);
    EXPECT_EQ(plan.evict.size(), 2U);
    device.Write(runs, 4);
    device.Write(runs, 5);
  }
  const ResidencyPlan last = device.Switch(VgpuId{2});
  EXPECT_EQ(last.copies_out, 2U);
  EXPECT_EQ(device.Switch(VgpuId{1}).copies_out, 0U);  // 2 has written nothing: what is clean isn't copied back
}

TEST(Residency, BringsAheadWhatTheRunningOneDoesNotHold) {
  SlotArena arena(12);
  const SlotRange a{0, 4}, b{3, 5}, c{6, 4};  // 3: a and b. 6 and 7: b and c
  ASSERT_TRUE(arena.AddAt(VgpuId{1}, std::span(&a, 1)));
  ASSERT_TRUE(arena.AddAt(VgpuId{2}, std::span(&b, 1)));
  ASSERT_TRUE(arena.AddAt(VgpuId{3}, std::span(&c, 1)));
  CopiedDevice device(arena);
  for (const std::uint64_t id : {2U, 3U}) {
    device.Switch(VgpuId{id});
    arena.ForEachSlot(VgpuId{id}, [&](std::uint32_t slot) { device.Write(VgpuId{id}, slot); });
  }
  const ResidencyPlan plan = device.Switch(VgpuId{1}, VgpuId{2});
  EXPECT_EQ(plan.evict, (std::vector<SlotCopy>{{3, VgpuId{2}, true}}));
  EXPECT_EQ(plan.restore,
            (std::vector<SlotCopy>{
                {0, VgpuId{1}, false}, {1, VgpuId{1}, false}, {2, VgpuId{1}, false}, {3, VgpuId{1}, false}}));
  EXPECT_EQ(plan.evict_ahead, (std::vector<SlotCopy>{{6, VgpuId{3}, true}, {7, VgpuId{3}, true}}));
  EXPECT_EQ(plan.restore_ahead, (std::vector<SlotCopy>{{6, VgpuId{2}, true}, {7, VgpuId{2}, true}}));
  EXPECT_EQ(plan.copies_out, 3U);
  EXPECT_EQ(plan.copies_in, 2U);
  EXPECT_EQ(device.Switch(VgpuId{2}).copies_in, 1U);  // the rest came ahead
}

TEST(Residency, RefusesAPlanThatNoLongerFits) {
  SlotArena arena = TwoOverlapping();
  Residency residency(arena.slots());
  const ResidencyPlan one = residency.Plan(arena, VgpuId{1}), other = residency.Plan(arena, VgpuId{2});
  EXPECT_TRUE(residency.Done(one).has_value());
  EXPECT_EQ(residency.Done(other).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(residency.Done(one).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(residency.Wrote(VgpuId{1}, {5, 2}).error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(residency.Dirty(5));
  EXPECT_EQ(residency.OwnerOf(5), VgpuId{1});
  residency.Drop(VgpuId{1});
  EXPECT_EQ(residency.OwnerOf(5), VgpuId{});
  EXPECT_TRUE(residency.Done(other).has_value());
}

// -- Laws ------------------------------------------------------------------------------------------------------------

std::vector<VgpuId> AnyVgpusIn(SlotArena& arena) {
  const int count = *rc::gen::inRange(1, 7);
  for (int i = 1; i <= count; ++i) {
    const auto length = *rc::gen::inRange<std::uint32_t>(1, arena.slots() + 1);
    const SlotRange place{*rc::gen::inRange<std::uint32_t>(0, arena.slots() - length + 1), length};
    RC_ASSERT(arena.AddAt(VgpuId{static_cast<std::uint64_t>(i)}, std::span(&place, 1)).has_value());
  }
  return arena.ids();
}

RC_GTEST_PROP(Residency, WhoRunsHasItsContentsAndNobodysAreLost, ()) {
  SlotArena arena(*rc::gen::inRange<std::uint32_t>(1, 30), static_cast<SlotLayout>(*rc::gen::inRange(0, 2)));
  const std::vector<VgpuId> ids = AnyVgpusIn(arena);
  CopiedDevice device(arena);
  for (int i = 0; i < 60; ++i) {
    const VgpuId runs = *rc::gen::elementOf(ids);
    switch (*rc::gen::inRange(0, 6)) {
      case 0: static_cast<void>(arena.Expand(runs, *rc::gen::inRange<std::uint32_t>(1, 5))); break;
      case 1: static_cast<void>(arena.Reduce(runs, *rc::gen::inRange<std::uint32_t>(1, 5))); break;
      default: {
        const VgpuId next = *rc::gen::arbitrary<bool>() ? *rc::gen::elementOf(ids) : VgpuId{};
        const ResidencyPlan plan = device.Switch(runs, next, *rc::gen::arbitrary<bool>());
        for (const SlotCopy& copy : plan.evict) RC_ASSERT(arena.sharers()[copy.slot] > 1U);
        for (const SlotCopy& copy : plan.evict_ahead) RC_ASSERT(!arena.Holds(runs, copy.slot));
        device.MustBeThere(runs);
        arena.ForEachSlot(runs, [&](std::uint32_t slot) {
          if (*rc::gen::arbitrary<bool>()) device.Write(runs, slot);
        });
      }
    }
    device.Follow();
    device.MustHaveAll();
  }
}

RC_GTEST_PROP(Residency, WhoSharesNothingCausesNoCopy, ()) {
  SlotArena arena(40);
  const SlotRange apart{30, 10};
  const VgpuId alone{99};
  RC_ASSERT(arena.AddAt(alone, std::span(&apart, 1)).has_value());
  std::vector<VgpuId> ids{alone};
  for (std::uint64_t id = 1; id < 6; ++id) {
    const auto length = *rc::gen::inRange<std::uint32_t>(1, 31);
    const SlotRange place{*rc::gen::inRange<std::uint32_t>(0, 31 - length), length};
    RC_ASSERT(arena.AddAt(VgpuId{id}, std::span(&place, 1)).has_value());
    ids.push_back(VgpuId{id});
  }
  CopiedDevice device(arena);
  for (int i = 0; i < 40; ++i) {
    const VgpuId runs = *rc::gen::elementOf(ids);
    const ResidencyPlan plan = device.Switch(runs, *rc::gen::elementOf(ids));
    for (const auto& copies : {plan.evict, plan.restore, plan.evict_ahead, plan.restore_ahead})
      for (const SlotCopy& copy : copies) RC_ASSERT(copy.vgpu != alone || !copy.copied);
    if (runs == alone) RC_ASSERT(plan.evict.empty());
    arena.ForEachSlot(runs, [&](std::uint32_t slot) { device.Write(runs, slot); });
  }
}

RC_GTEST_PROP(Residency, CopyingAheadCopiesNoMoreWhenTurnsAreTakenInOrder, ()) {
  SlotArena arena(*rc::gen::inRange<std::uint32_t>(1, 30));
  const std::vector<VgpuId> ids = AnyVgpusIn(arena);
  CopiedDevice with(arena), without(arena);
  std::uint64_t in_ahead = 0, in_without = 0, out_ahead = 0, out_without = 0;
  const std::size_t turns = ids.size() * 5;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const VgpuId runs = ids[turn % ids.size()];
    const VgpuId next = turn + 1 < turns ? ids[(turn + 1) % ids.size()] : VgpuId{};
    const ResidencyPlan ahead = with.Switch(runs, next), plain = without.Switch(runs);
    in_ahead += ahead.copies_in;
    out_ahead += ahead.copies_out;
    in_without += plain.copies_in;
    out_without += plain.copies_out;
    arena.ForEachSlot(runs, [&](std::uint32_t slot) {
      with.Write(runs, slot);
      without.Write(runs, slot);
    });
  }
  RC_ASSERT(in_ahead == in_without);
  RC_ASSERT(out_ahead == out_without);
}

}  // namespace
}  // namespace weir::core
