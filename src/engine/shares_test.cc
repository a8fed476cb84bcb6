// SPDX-License-Identifier: Apache-2.0
// The promises of the policies, on a modelled node in virtual time: the same engine that the daemon runs.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/harness/model_node.h"

namespace weir {
namespace {

using engine::VgpuSettings;
using testing::ModelLoop;
using testing::ModelNode;

constexpr double kPoint = 0.01;

struct Three {
  ModelNode node;
  VgpuId a, b, c;
  ProcessId pa, pb, pc;
};

// Programs differ: long frames, short frames, and one with much work of its own between frames.
void Start(Three& t, const std::string& policy) {
  t.node.SetPolicy(policy);
  t.a = t.node.AddVgpu("a", {.weight = 50});
  t.b = t.node.AddVgpu("b", {.weight = 30});
  t.c = t.node.AddVgpu("c", {.weight = 20});
  t.pa = t.node.AddProcess(t.a, {.think = microseconds(500), .gpu = milliseconds(8)});
  t.pb = t.node.AddProcess(t.b, {.think = milliseconds(1), .gpu = milliseconds(3)});
  t.pc = t.node.AddProcess(t.c, {.think = microseconds(100), .gpu = milliseconds(20)});
  t.node.RunFor(seconds(1));
}

TEST(ProportionalShare, SharesOfSaturatingProgramsAreWithinThreeTenthsOfAPoint) {
  Three t;
  Start(t, "proportional-share");
  auto before = t.node.Snapshot();
  t.node.RunFor(seconds(20));
  EXPECT_NEAR(t.node.ShareSince(before, t.a), 0.50, 0.3 * kPoint);
  EXPECT_NEAR(t.node.ShareSince(before, t.b), 0.30, 0.3 * kPoint);
  EXPECT_NEAR(t.node.ShareSince(before, t.c), 0.20, 0.3 * kPoint);
  EXPECT_GT(t.node.DeviceUseSince(before), 0.97);
}

TEST(ProportionalShare, ARaisedWeightHoldsAtOnce) {
  ModelNode node;
  const VgpuId light = node.AddVgpu("light", {.weight = 1});
  const VgpuId heavy = node.AddVgpu("heavy", {.weight = 10'000});
  node.AddProcess(light, {.think = microseconds(100), .gpu = milliseconds(5)});
  node.AddProcess(heavy, {.think = microseconds(100), .gpu = milliseconds(5)});
  node.RunFor(seconds(2));
  ASSERT_TRUE(node.Do(engine::SetVgpu{light, {.weight = 10'000}}));
  auto before = node.Snapshot();
  node.RunFor(seconds(2));
  EXPECT_NEAR(node.ShareSince(before, light), 0.5, 2 * kPoint);
}

TEST(ProportionalShare, AStoppedProgramsTimeIsSharedInProportionWithinASecond) {
  Three t;
  Start(t, "proportional-share");
  t.node.EndProcess(t.pa);
  t.node.RunFor(milliseconds(100));
  auto before = t.node.Snapshot();
  t.node.RunFor(milliseconds(900));
  EXPECT_GT(t.node.DeviceUseSince(before), 0.85);  // b thinks a quarter of its time, and the device waits for it
  EXPECT_NEAR(t.node.ShareSince(before, t.b), 0.60, 2 * kPoint);
  EXPECT_NEAR(t.node.ShareSince(before, t.c), 0.40, 2 * kPoint);
}

TEST(ProportionalShare, GivesIdleTimeOfALimitedProgramToTheOthers) {
  ModelNode node;
  const VgpuId light = node.AddVgpu("light", {.weight = 80});
  const VgpuId greedy = node.AddVgpu("greedy", {.weight = 20});
  node.AddProcess(light, {.think = milliseconds(14), .gpu = milliseconds(2)});  // 60 frames/s, and never wants more
  node.AddProcess(greedy, {.think = microseconds(100), .gpu = milliseconds(5)});
  node.RunFor(seconds(2));
  auto before = node.Snapshot();
  node.RunFor(seconds(10));
  EXPECT_GT(node.DeviceUseSince(before), 0.95);
  EXPECT_GT(node.UseSince(before, light), 0.095);  // its demand is 0.125 on an idle device, 0.1 beside another vGPU
  EXPECT_GT(node.UseSince(before, greedy), 0.80);
}

// Reports include the turns of other clients, so that they are several times the use. The account corrects them ten
// times a second. Neither may cost a vGPU its share.
TEST(ProportionalShare, SharesHoldWhereReportsIncludeTheTurnsOfOthers) {
  for (const int processes : {1, 2, 4}) {
    for (const Duration frame : {milliseconds(4), milliseconds(16), milliseconds(30)}) {
      ModelNode node;
      node.SetPolicy("proportional-share");
      node.MeterSpans();
      std::vector<VgpuId> vgpus;
      for (const std::uint32_t weight : {50U, 30U, 20U}) {
        vgpus.push_back(node.AddVgpu("w" + std::to_string(weight), {.weight = weight}));
        for (int i = 0; i < processes; ++i) node.AddProcess(vgpus.back(), {.think = microseconds(300), .gpu = frame});
      }
      node.RunFor(seconds(2));
      auto before = node.Snapshot();
      node.RunFor(seconds(20));
      SCOPED_TRACE(::testing::Message() << processes << " processes, frames of " << frame.count() / 1'000'000 << " ms");
      EXPECT_NEAR(node.ShareSince(before, vgpus[0]), 0.50, kPoint);
      EXPECT_NEAR(node.ShareSince(before, vgpus[1]), 0.30, kPoint);
      EXPECT_NEAR(node.ShareSince(before, vgpus[2]), 0.20, kPoint);
      EXPECT_GT(node.DeviceUseSince(before), 0.97);
    }
  }
}

// Some of the frames are as long as the time between two readings, so that few end between two readings.
TEST(ProportionalShare, FourProcessesGetNoMoreThanOneWhereReportsIncludeTheTurnsOfOthers) {
  for (const Duration frame : {milliseconds(4), milliseconds(30), milliseconds(100), milliseconds(250)}) {
    ModelNode node;
    node.SetPolicy("proportional-share");
    node.MeterSpans();
    const VgpuId one = node.AddVgpu("one", {.weight = 50});
    const VgpuId four = node.AddVgpu("four", {.weight = 50});
    node.AddProcess(one, {.think = microseconds(300), .gpu = frame});
    for (int i = 0; i < 4; ++i) node.AddProcess(four, {.think = microseconds(300), .gpu = frame});
    node.RunFor(seconds(2));
    auto before = node.Snapshot();
    node.RunFor(seconds(30));
    SCOPED_TRACE(::testing::Message() << "frames of " << frame.count() / 1'000'000 << " ms");
    EXPECT_LE(node.ShareSince(before, four), 0.51);
    EXPECT_GT(node.DeviceUseSince(before), 0.97);
  }
}

// A frame of 16 ms takes up to 128 ms beside seven others, longer than the time between two readings.
TEST(ProportionalShare, EightSharesHoldWhereReportsIncludeTheTurnsOfOthers) {
  ModelNode node;
  node.SetPolicy("proportional-share");
  node.MeterSpans();
  std::vector<std::pair<VgpuId, double>> vgpus;
  double weights = 0;
  for (const std::uint32_t weight : {50U, 40U, 40U, 30U, 30U, 20U, 20U, 10U}) {
    vgpus.emplace_back(node.AddVgpu("v" + std::to_string(vgpus.size()), {.weight = weight}), weight);
    node.AddProcess(vgpus.back().first, {.think = microseconds(300), .gpu = milliseconds(16), .jitter = 0});
    weights += weight;
  }
  node.RunFor(seconds(2));
  auto before = node.Snapshot();
  node.RunFor(seconds(20));
  for (const auto& [id, weight] : vgpus) EXPECT_NEAR(node.ShareSince(before, id), weight / weights, 0.5 * kPoint);
}

TEST(ProportionalShare, LongFramesOfANeighbourDoNotReduceASmallFramesShare) {
  ModelNode node;
  const VgpuId heavy = node.AddVgpu("heavy", {.weight = 1});
  const VgpuId quick = node.AddVgpu("quick", {.weight = 99});
  node.AddProcess(heavy, {.think = microseconds(100), .gpu = milliseconds(150)});
  node.AddProcess(quick, {.think = milliseconds(4), .gpu = milliseconds(40)});
  node.RunFor(seconds(20));
  auto before = node.Snapshot();
  node.RunFor(seconds(60));
  EXPECT_GT(node.ShareSince(before, quick), 0.85);  // idle moments go to the heavy one: 4 of 44 ms
}

TEST(ProportionalShare, AReturningVgpuDoesNotStallTheOthers) {
  ModelNode node;
  const VgpuId steady = node.AddVgpu("steady", {.weight = 50});
  const VgpuId back = node.AddVgpu("back", {.weight = 50});
  node.AddProcess(steady, {.think = microseconds(200), .gpu = milliseconds(2)});
  ProcessId p = node.AddProcess(back, {.think = microseconds(200), .gpu = milliseconds(2)});
  node.RunFor(seconds(1));
  node.EndProcess(p);
  node.RunFor(seconds(5));
  node.AddProcess(back, {.think = microseconds(200), .gpu = milliseconds(2)});
  auto before = node.Snapshot();
  node.RunFor(seconds(1));
  EXPECT_NEAR(node.ShareSince(before, steady), 0.5, 2 * kPoint);
}

TEST(Reserve, CapsEachAtItsShareAndLeavesTheRestUnused) {
  Three t;
  Start(t, "reserve");
  auto before = t.node.Snapshot();
  t.node.RunFor(seconds(20));
  // By equation 1 nothing is saved, so a vGPU that can't use its budget because the device is busy loses it.
  EXPECT_LE(t.node.UseSince(before, t.a), 0.503);
  EXPECT_GE(t.node.UseSince(before, t.a), 0.42);
  EXPECT_NEAR(t.node.UseSince(before, t.b), 0.30, 0.3 * kPoint);
  EXPECT_NEAR(t.node.UseSince(before, t.c), 0.20, 0.3 * kPoint);
  t.node.EndProcess(t.pa);
  before = t.node.Snapshot();
  t.node.RunFor(seconds(20));
  EXPECT_NEAR(t.node.UseSince(before, t.b), 0.30, 0.3 * kPoint);
  EXPECT_NEAR(t.node.UseSince(before, t.c), 0.20, 0.3 * kPoint);
}

TEST(Cap, HoldsUnderEveryPolicyAndForALoneVgpu) {
  for (const core::PolicyEntry& policy : core::PolicyTable()) {
    if (policy.name == "cap-paper") continue;  // it forgives debt: caps_test.cc
    ModelNode node;
    node.SetPolicy(std::string(policy.name));
    const VgpuId capped = node.AddVgpu("capped", {.weight = 100, .cap = Share::FromFraction(0.25)});
    node.AddProcess(capped, {.think = microseconds(100), .gpu = milliseconds(30)});
    node.RunFor(seconds(1));
    auto before = node.Snapshot();
    node.RunFor(seconds(20));
    EXPECT_NEAR(node.UseSince(before, capped), 0.25, 0.5 * kPoint) << policy.name;
  }
}

TEST(Cap, AVgpuAtItsCapDoesNotDelayOthers) {
  for (const std::string policy : {"proportional-share", "round-robin"}) {
    ModelNode node;
    node.SetPolicy(policy);
    const VgpuId capped = node.AddVgpu("capped", {.weight = 100, .cap = Share::FromFraction(0.1)});
    const VgpuId other = node.AddVgpu("other", {.weight = 100});
    node.AddProcess(capped, {.think = microseconds(50), .gpu = milliseconds(8)});
    node.AddProcess(other, {.think = microseconds(50), .gpu = milliseconds(8)});
    node.RunFor(seconds(1));
    auto before = node.Snapshot();
    node.RunFor(seconds(10));
    EXPECT_NEAR(node.UseSince(before, capped), 0.1, 0.5 * kPoint) << policy;
    EXPECT_GT(node.UseSince(before, other), 0.8) << policy;
  }
}

TEST(Cap, UseWithoutACapIsNotOwedToANewCap) {
  ModelNode node;
  const VgpuId id = node.AddVgpu("a", {.cap = Share::FromFraction(0.5)});
  node.AddProcess(id, {.think = microseconds(100), .gpu = milliseconds(5)});
  node.RunFor(seconds(1));
  ASSERT_TRUE(node.Do(engine::SetVgpu{id, {}}));
  node.RunFor(seconds(10));
  ASSERT_TRUE(node.Do(engine::SetVgpu{id, {.cap = Share::FromFraction(0.2)}}));
  node.RunFor(seconds(1));
  auto before = node.Snapshot();
  node.RunFor(seconds(10));
  EXPECT_NEAR(node.UseSince(before, id), 0.2, 0.5 * kPoint);
}

TEST(EveryPolicy, FourProcessesGetNoMoreThanOne) {
  for (const std::string policy : {"proportional-share", "reserve"}) {
    ModelNode node;
    node.SetPolicy(policy);
    const VgpuId one = node.AddVgpu("one", {.weight = 50});
    const VgpuId four = node.AddVgpu("four", {.weight = 50});
    node.AddProcess(one, {.think = microseconds(100), .gpu = milliseconds(4)});
    for (int i = 0; i < 4; ++i) node.AddProcess(four, {.think = microseconds(100), .gpu = milliseconds(4)});
    node.RunFor(seconds(1));
    auto before = node.Snapshot();
    node.RunFor(seconds(20));
    EXPECT_LE(node.UseSince(before, four), 0.503) << policy;
    EXPECT_NEAR(node.ShareSince(before, four), 0.5, 0.5 * kPoint) << policy;
  }
}

TEST(EveryPolicy, AnIdleDeviceIsNotPolled) {
  for (const core::PolicyEntry& policy : core::PolicyTable()) {
    ModelNode node;
    node.SetPolicy(std::string(policy.name));
    const ProcessId p = node.AddProcess(node.AddVgpu("a", {}), {});
    node.RunFor(seconds(1));
    node.EndProcess(p);
    node.RunFor(seconds(1));
    const std::uint64_t looks = node.looks();
    node.RunFor(seconds(10));
    EXPECT_EQ(node.looks(), looks) << policy.name;
  }
}

TEST(SetPolicy, TakesEffectOnRunningPrograms) {
  Three t;
  Start(t, "none");
  auto before = t.node.Snapshot();
  t.node.RunFor(seconds(5));
  EXPECT_LT(t.node.ShareSince(before, t.a), 0.40);  // processor sharing gives each about a third
  t.node.SetPolicy("proportional-share");
  t.node.RunFor(milliseconds(500));
  before = t.node.Snapshot();
  t.node.RunFor(seconds(10));
  EXPECT_NEAR(t.node.ShareSince(before, t.a), 0.5, 0.5 * kPoint);
  ASSERT_TRUE(t.node.Do(engine::SetVgpu{t.a, {.weight = 10}}));
  t.node.RunFor(milliseconds(500));
  before = t.node.Snapshot();
  t.node.RunFor(seconds(10));
  EXPECT_NEAR(t.node.ShareSince(before, t.a), 1.0 / 6, kPoint);
}

RC_GTEST_PROP(ProportionalShare, GivesAnyMixOfSaturatingProgramsItsWeights, ()) {
  ModelNode node(*rc::gen::arbitrary<std::uint64_t>());
  const int count = *rc::gen::inRange(2, 6);
  std::vector<VgpuId> ids;
  std::vector<double> weights;
  double total = 0;
  for (int i = 0; i < count; ++i) {
    weights.push_back(*rc::gen::inRange(10, 100));
    total += weights.back();
    ids.push_back(node.AddVgpu("v" + std::to_string(i), {.weight = static_cast<std::uint32_t>(weights.back())}));
    // With hardly any time between frames, a program keeps the device busy even if it runs alone in its turn.
    node.AddProcess(ids.back(), {.think = microseconds(50), .gpu = microseconds(*rc::gen::inRange(500, 30000))});
  }
  node.RunFor(seconds(1));
  auto before = node.Snapshot();
  node.RunFor(seconds(15));
  for (int i = 0; i < count; ++i) RC_ASSERT(std::abs(node.ShareSince(before, ids[i]) - weights[i] / total) < 0.01);
  RC_ASSERT(node.DeviceUseSince(before) > 0.95);
}

}  // namespace
}  // namespace weir
