// SPDX-License-Identifier: Apache-2.0
// Single decisions; whole runs are in src/engine/shares_test.cc.
#include "core/schedule/proportional_share.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

struct ShareBench {
  std::unique_ptr<Policy> policy = *MakePolicy("proportional-share", {});
  std::vector<VgpuView> views;
  std::vector<Verdict> verdicts;
  Instant now = InstantFromNs(1'000'000'000);
  Instant Decide() {
    verdicts.resize(views.size());
    return policy->Decide({now, views}, verdicts);
  }
};

ShareBench Two() {
  ShareBench b;
  b.views = {{.id = VgpuId{1}, .slot = 0, .weight = 60, .waiting = 1, .attached = true},
             {.id = VgpuId{2}, .slot = 1, .weight = 40, .in_flight = 1, .attached = true}};
  b.Decide();
  return b;
}

TEST(ProportionalShare, TheQuantumIsSplitByWeight) {
  ShareBench b = Two();
  EXPECT_EQ(b.verdicts[0].allowance, milliseconds(3));
  EXPECT_EQ(b.verdicts[1].allowance, milliseconds(2));
}

TEST(ProportionalShare, AVgpuAheadByMoreThanTheQuantumWaits) {
  ShareBench b = Two();
  b.views[1].used = milliseconds(8);
  b.now += milliseconds(1);
  b.Decide();
  EXPECT_EQ(b.verdicts[1].allowance, milliseconds(-6));
  EXPECT_EQ(b.verdicts[0].allowance, milliseconds(3));
}

TEST(ProportionalShare, WaitsForALaggingVgpuUpToItsNextFrameTime) {
  ShareBench b = Two();
  b.views[1].used = milliseconds(8);
  b.views[0].waiting = 0;
  b.views[0].frame_gpu = milliseconds(5);
  b.views[0].frame_think = b.views[0].least_think = milliseconds(2);
  b.views[0].last_active = b.now;
  b.now += milliseconds(3);
  b.Decide();
  EXPECT_LT(b.verdicts[1].allowance, Duration{0});
  b.now += milliseconds(4);
  b.Decide();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
}

TEST(ProportionalShare, DoesNotWaitForAVgpuThatCannotUseItsShare) {
  ShareBench b = Two();
  b.views[1].used = milliseconds(8);
  b.views[0].waiting = 0;
  b.views[0].frame_gpu = milliseconds(2);
  b.views[0].frame_think = b.views[0].least_think = milliseconds(14);
  b.views[0].last_active = b.now;
  b.now += milliseconds(1);
  b.Decide();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
}

TEST(ProportionalShare, TheEndOfWorkFreesTheDeviceWhereNobodyWaitsForTheProgram) {
  ShareBench b = Two();
  b.views[1].frame_gpu = milliseconds(5);
  b.views[1].frame_think = b.views[1].least_think = milliseconds(2);
  b.Decide();
  EXPECT_FALSE(b.verdicts[1].frees_device) << "the device is kept for its next frame";
  b.views[1].frame_think = b.views[1].least_think = milliseconds(14);
  b.Decide();
  EXPECT_TRUE(b.verdicts[1].frees_device);
  b.views[1].frame_think = b.views[1].least_think = milliseconds(2);
  b.views[1].blocks = true;
  b.Decide();
  EXPECT_TRUE(b.verdicts[1].frees_device);
}

/// A vGPU whose presents wait for vertical blanks waits for one, and a greedy one waits at the gate.
ShareBench BesideOneThatWaitsForABlank() {
  ShareBench b = Two();
  VgpuView& blank = b.views[0];
  blank.waiting = 0;
  blank.blocks = true;
  blank.frame_gpu = milliseconds(6);
  blank.last_active = b.now;
  VgpuView& greedy = b.views[1];
  greedy.in_flight = 0;
  greedy.waiting = 1;
  greedy.frame_gpu = milliseconds(6);
  b.Decide();
  return b;
}

TEST(ProportionalShare, OneFrameIsQueuedWhileAnotherProgramWaitsForABlank) {
  ShareBench b = BesideOneThatWaitsForABlank();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
  b.views[1].reserved = milliseconds(6);
  b.views[1].used += milliseconds(6);
  b.now += milliseconds(1);
  b.Decide();
  EXPECT_LE(b.verdicts[1].allowance, Duration{0}) << "the device has work for 6 ms";
  EXPECT_GT(b.verdicts[0].allowance, Duration{0}) << "the program that comes seldom does not wait for that";
  b.now += milliseconds(4);
  b.Decide();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0}) << "the device has work for 2 ms at most";
}

TEST(ProportionalShare, FramesAreQueuedWhereNoProgramComesSeldom) {
  ShareBench b = BesideOneThatWaitsForABlank();
  b.views[0].attached = false;
  b.views[1].reserved = milliseconds(6);
  b.views[1].used += milliseconds(6);
  b.now += milliseconds(1);
  b.Decide();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
}

TEST(ProportionalShare, WhereDecisionsComeLateTheQuantumLastsUntilTheNext) {
  ShareBench b = Two();
  b.policy->Decide({b.now, b.views, milliseconds(10)}, b.verdicts);
  EXPECT_EQ(b.verdicts[0].allowance, milliseconds(9)) << "of 15 ms";
  EXPECT_EQ(b.verdicts[1].allowance, milliseconds(6));
}

TEST(ProportionalShare, WhatWasServedAtASmallWeightDoesNotCountMoreAtALargeOne) {
  ShareBench b = Two();
  b.views[0].weight = 1;
  b.views[1].weight = kWeightMax;
  b.Decide();
  b.views[0].used += milliseconds(5);
  b.now += milliseconds(1);
  b.Decide();
  b.views[0].weight = kWeightMax;
  b.Decide();
  EXPECT_LT(b.verdicts[0].allowance, Duration{0}) << "it is ahead";
  EXPECT_GE(b.verdicts[0].allowance, -milliseconds(10)) << "by its 5 ms, and not by 10,000 times as much";
}

TEST(ProportionalShare, OtherWeightsInTheSameProportionChangeNothing) {
  ShareBench b = Two();
  b.views[1].used = milliseconds(8);
  b.now += milliseconds(1);
  b.Decide();
  for (VgpuView& vgpu : b.views) vgpu.weight *= 100;
  b.Decide();
  EXPECT_NEAR(MillisecondsOf(b.verdicts[1].allowance), -6, 1e-3);
  EXPECT_NEAR(MillisecondsOf(b.verdicts[0].allowance), 3, 1e-3);
}

TEST(ProportionalShare, PollsOnlyUnderContention) {
  ShareBench b = Two();
  EXPECT_EQ(b.Decide(), b.now + milliseconds(1));
  b.views[0].waiting = b.views[1].in_flight = 0;
  b.now += seconds(2);
  EXPECT_EQ(b.Decide(), kNever);
  EXPECT_GT(b.verdicts[0].allowance, Duration{0});
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
}

// In any state one of the waiting vGPUs may go; otherwise the device would stall.
RC_GTEST_PROP(ProportionalShare, OneCompetingVgpuMayAlwaysSubmit, ()) {
  ShareBench b;
  const auto count = *rc::gen::inRange<std::uint32_t>(1, 8);
  for (std::uint32_t i = 0; i < count; ++i)
    b.views.push_back({.id = VgpuId{i + 1},
                       .slot = i,
                       .weight = *rc::gen::inRange<std::uint32_t>(1, kWeightMax + 1),
                       .waiting = 1,
                       .attached = true});
  for (int round = 0; round < 20; ++round) {
    for (VgpuView& vgpu : b.views) vgpu.used += Duration{*rc::gen::inRange<std::int64_t>(-1'000'000, 400'000'000)};
    b.now += Duration{*rc::gen::inRange<std::int64_t>(0, 2'000'000'000)};
    b.Decide();
    bool any = false;
    for (const Verdict& verdict : b.verdicts) any |= verdict.allowance > Duration{0};
    RC_ASSERT(any);
  }
}

}  // namespace
}  // namespace weir::core
