// SPDX-License-Identifier: Apache-2.0
#include "sim/elastic_memory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <vector>

namespace weir::sim {
namespace {

constexpr double kSlotsASecond = 100;
constexpr double kLink = kSlotsASecond * static_cast<double>(kSlotBytes.count);
constexpr Instant kOutset = InstantFromNs(1'000'000'000);
using Copy = ElasticHolding::Copy;

TEST(ElasticMemoryModel, AFrameWaitsUntilAllThatItMayHaveIsThere) {
  ElasticMemory memory(kLink);
  ElasticHolding h{.wants = 8, .held = 6, .here = 2, .waiting = 1};
  EXPECT_EQ(h.Must(), 6u);
  EXPECT_EQ(memory.Next(kOutset, h), kOutset + milliseconds(20)) << "what is its own already it restores ahead";
  EXPECT_EQ(h.resident, 2u);
  EXPECT_FALSE(memory.Next(kOutset, h));
  memory.Ended(h);
  EXPECT_FALSE(h.Ready());
  h.here = 6;
  EXPECT_EQ(memory.Next(kOutset + seconds(1), h), kOutset + milliseconds(1040));
  EXPECT_EQ(h.Must(), 6u) << "until it has been copied";
  EXPECT_FALSE(h.Ready());
  memory.Ended(h);
  EXPECT_EQ(h.Must(), 0u);
  EXPECT_TRUE(h.Ready());
  EXPECT_EQ(h.switch_copy, Duration{}) << "nobody had taken anything from it";
  EXPECT_EQ(memory.Pass(kOutset + seconds(2), h), kOutset + milliseconds(2040)) << "two slots in, two out";
  EXPECT_EQ(h.copied_in, 8);
  EXPECT_EQ(h.copied_out, 2);
}

TEST(ElasticMemoryModel, WhatIsOverGoesWhenTheLastFrameInFlightHasEnded) {
  ElasticMemory memory(kLink);
  ElasticHolding h{.wants = 6, .dirty = 0.5, .held = 6, .here = 6, .resident = 6, .pinned = 1};
  h.here = 2;
  EXPECT_FALSE(memory.Next(kOutset, h));
  EXPECT_FALSE(h.Ready()) << "no other frame begins";
  EXPECT_FALSE(h.Done());
  h.pinned = 0;
  EXPECT_EQ(memory.Next(kOutset, h), kOutset + milliseconds(20)) << "half of the four is copied out";
  EXPECT_EQ(h.resident, 6u) << "until it has been";
  memory.Ended(h);
  EXPECT_EQ(h.resident, 2u);
  EXPECT_TRUE(h.Done());
  h.here = 6, h.waiting = 1;
  EXPECT_EQ(memory.Next(kOutset + seconds(1), h), kOutset + milliseconds(1040));
  EXPECT_EQ(h.switch_copy, milliseconds(60)) << "both ways, since another one had its turn";
}

TEST(ElasticMemoryModel, WhatItHoldsNoMoreIsNoSwitch) {
  ElasticMemory memory(kLink);
  ElasticHolding h{.wants = 6, .held = 4, .here = 4, .resident = 6};
  EXPECT_EQ(memory.Next(kOutset, h), kOutset + milliseconds(20));
  memory.Ended(h);
  EXPECT_EQ(h.switch_copy, Duration{});
  EXPECT_TRUE(h.Ready());
  EXPECT_EQ(h.Spilled(), 2u);
}

TEST(ElasticMemoryModel, AFrameOfSmallCommandsRunsOnWhatItHas) {
  ElasticHolding h{.wants = 9, .command = 5, .held = 7, .here = 3, .resident = 3, .waiting = 1};
  EXPECT_FALSE(h.Ready());
  EXPECT_EQ(h.Must(), 5u) << "one of them can't do with less";
  h.here = h.resident = 5;
  EXPECT_TRUE(h.Ready());
  EXPECT_EQ(h.Spilled(), 4u);
}

TEST(ElasticMemoryModel, TheLinkIsOneForAllAndKnowsItsPart) {
  CopyLink link(kLink);
  EXPECT_EQ(link.Copy(kOutset, 10), kOutset + milliseconds(100));
  EXPECT_EQ(link.Copy(kOutset, 0), kOutset) << "nothing needs no link";
  EXPECT_EQ(link.Copy(kOutset, 10), kOutset + milliseconds(200));
  EXPECT_EQ(link.Busy(kOutset + milliseconds(50)), milliseconds(50));
  EXPECT_EQ(link.Busy(kOutset + seconds(1)), milliseconds(200));
  RecentPart part;
  part.Of(kOutset, link.Busy(kOutset));
  EXPECT_NEAR(part.Of(kOutset + milliseconds(400), link.Busy(kOutset + milliseconds(400))), 0.5, 1e-9);
  EXPECT_NEAR(part.Of(kOutset + milliseconds(450), milliseconds(450)), 0.5, 1e-9) << "not a tenth of a second later";
}

/// Two vGPUs and a daemon that assigns slots to one only when the other has carried out its order, which may be late:
/// there are never more slots resident than exist, and a vGPU that is ready has all its assigned slots.
RC_GTEST_PROP(ElasticMemoryModelLaw, OrdersHoldHoweverLateTheyAreCarriedOut, ()) {
  const auto slots = *rc::gen::inRange<std::uint32_t>(1, 12);
  ElasticMemory memory(kLink);
  std::array<ElasticHolding, 2> all;
  std::array<std::optional<Instant>, 2> ends;
  for (ElasticHolding& h : all) {
    h.wants = *rc::gen::inRange<std::uint32_t>(0, 20);
    h.held = *rc::gen::inRange<std::uint32_t>(0, slots + 1);
    h.dirty = *rc::gen::element(0.0, 0.5, 1.0);
  }
  Instant now = kOutset;
  for (const std::uint32_t step :
       *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 60))) {
    ElasticHolding& h = all[step % 2];
    ElasticHolding& other = all[1 - step % 2];
    switch (step / 2 % 6) {
      case 0: h.here = step % std::max(h.here, 1U); break;
      case 1: h.here = std::min(h.held, slots - std::min(slots, std::max(other.here, other.resident))); break;
      case 2: ++h.waiting; break;
      case 3:
        if (h.Ready() && h.waiting > 0) --h.waiting, ++h.pinned;
        break;
      case 4: h.pinned -= h.pinned > 0 ? 1 : 0; break;
      default: now += milliseconds(step * 7); break;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      if (ends[i] && *ends[i] <= now) {
        memory.Ended(all[i]);
        ends[i].reset();
      }
      const std::uint32_t before = all[i].resident;
      if (const auto end = memory.Next(now, all[i])) ends[i] = end;
      RC_ASSERT(all[i].resident <= std::max(before, all[i].here));
      RC_ASSERT(all[i].resident <= all[i].wants);
      RC_ASSERT(!all[i].Ready() || all[i].resident == std::min(all[i].wants, all[i].here));
    }
    RC_ASSERT(all[0].resident + all[1].resident <= slots);
  }
}

}  // namespace
}  // namespace weir::sim
