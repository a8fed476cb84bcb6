// SPDX-License-Identifier: Apache-2.0
// Frame promises on a modelled device: the engine, the shims' pacer and the policies together, in virtual time.
#include <gtest/gtest.h>

#include "tests/harness/model_node.h"

namespace weir::engine {
namespace {

using weir::testing::ModelLoop;
using weir::testing::ModelNode;

VgpuSettings Fps(double fps) {
  VgpuSettings settings;
  settings.fps = fps;
  return settings;
}

struct Seen {
  double fps;
  double late;  // part of its frames
};
/// Rate and late frames of the vGPU in the next `span`.
Seen Watch(ModelNode& node, VgpuId vgpu, Duration span) {
  const core::FrameTotals before = node.engine().Vgpu(node.now(), vgpu)->totals;
  node.RunFor(span);
  const core::FrameTotals after = node.engine().Vgpu(node.now(), vgpu)->totals;
  const auto frames = static_cast<double>(after.frames - before.frames);
  return {frames / SecondsOf(span), static_cast<double>(after.late_frames - before.late_frames) / frames};
}

TEST(SlaAware, EveryRateIsAsPromisedWhenTheDeviceSuffices) {
  ModelNode node;
  const VgpuId light = node.AddVgpu("light", Fps(60)), heavy = node.AddVgpu("heavy", Fps(30));
  node.AddProcess(light, {.think = milliseconds(1), .gpu = milliseconds(2)});
  node.AddProcess(heavy, {.think = milliseconds(2), .gpu = milliseconds(10)});
  node.SetPolicy("sla-aware");
  node.RunFor(seconds(2));
  const Seen seen = Watch(node, light, seconds(10));
  EXPECT_NEAR(seen.fps, 60, 0.6);
  EXPECT_LT(seen.late, 0.01);
  EXPECT_NEAR(Watch(node, heavy, seconds(10)).fps, 30, 0.3);
}

TEST(SlaAware, AComputingTenantKeepsItsTaskRate) {
  ModelNode node;
  VgpuSettings tasks;
  tasks.tasks_per_s = 200;
  const VgpuId promised = node.AddVgpu("promised", tasks), other = node.AddVgpu("other", {});
  node.AddProcess(promised, {.gpu = milliseconds(1)});
  for (int i = 0; i < 3; ++i) node.AddProcess(other, {.gpu = milliseconds(4)});
  node.SetPolicy("sla-aware", {{"fps", 30}});
  node.RunFor(seconds(2));
  const Seen seen = Watch(node, promised, seconds(10));
  EXPECT_NEAR(seen.fps, 200, 4);
  ASSERT_TRUE(node.Do(SetVgpu{promised, {}}));
  EXPECT_NEAR(Watch(node, promised, seconds(5)).fps, 30, 1) << "without a promise it is the policy's rate";
}

TEST(SlaAware, AProgramThatStopsPresentingIsNotPacedByThePolicysRate) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("renders", {});
  const ProcessId process = node.AddProcess(vgpu, {.gpu = milliseconds(4)});
  node.SetPolicy("sla-aware", {{"fps", 30}});
  node.RunFor(seconds(2));
  EXPECT_NEAR(Watch(node, vgpu, seconds(5)).fps, 30, 1);
  ASSERT_TRUE(node.Do(ProcessDraws{vgpu, process, false}));
  EXPECT_GT(Watch(node, vgpu, seconds(5)).fps, 200);
  ASSERT_TRUE(node.Do(ProcessDraws{vgpu, process, true}));
  node.RunFor(seconds(2));
  EXPECT_NEAR(Watch(node, vgpu, seconds(5)).fps, 30, 1);
  EXPECT_FALSE(node.Do(ProcessDraws{vgpu, ProcessId{999}, true})) << "an unknown process";
}

// VGRIS, Fig. 2 and 7: greedy programs are slowed down, and the starved one gets its rate.
TEST(SlaAware, AGreedyProgramYieldsToAStarvedOne) {
  ModelNode node;
  const VgpuId greedy = node.AddVgpu("greedy", Fps(30)), starved = node.AddVgpu("starved", Fps(30));
  for (int i = 0; i < 3; ++i) node.AddProcess(greedy, {.gpu = milliseconds(2)});
  node.AddProcess(starved, {.gpu = milliseconds(20)});
  node.SetPolicy("none");
  node.RunFor(seconds(2));
  const Seen before = Watch(node, starved, seconds(10));
  node.SetPolicy("sla-aware");
  node.RunFor(seconds(2));
  const Seen after = Watch(node, starved, seconds(10));
  EXPECT_LT(before.fps, 15);
  EXPECT_NEAR(after.fps, 30, 0.5);
  EXPECT_GT(before.late, 0.9);
  EXPECT_LT(after.late, 0.03);
}

TEST(SlaAware, AnotherPromiseHoldsForARunningProgram) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", Fps(20));
  node.AddProcess(vgpu, {.gpu = milliseconds(2)});
  node.SetPolicy("sla-aware");
  node.RunFor(seconds(2));
  EXPECT_NEAR(Watch(node, vgpu, seconds(5)).fps, 20, 0.4);
  ASSERT_TRUE(node.Do(SetVgpu{vgpu, Fps(50)}));
  EXPECT_NEAR(Watch(node, vgpu, seconds(5)).fps, 50, 1);
  VgpuSettings by_latency;
  by_latency.latency = milliseconds(25);
  ASSERT_TRUE(node.Do(SetVgpu{vgpu, by_latency}));
  EXPECT_NEAR(Watch(node, vgpu, seconds(5)).fps, 40, 1);
}

TEST(SlaAware, ACapHoldsBesideThePace) {
  ModelNode node;
  VgpuSettings settings = Fps(100);
  settings.cap = Share::FromFraction(0.1);
  const VgpuId vgpu = node.AddVgpu("a", settings);
  node.AddProcess(vgpu, {.gpu = milliseconds(5)});
  node.SetPolicy("sla-aware");
  node.RunFor(seconds(2));
  EXPECT_NEAR(Watch(node, vgpu, seconds(10)).fps, 20, 1);
}

// VGRIS, Fig. 11: shares until one program starves, then sla-aware, then shares again when that leaves much of the
// device idle.
TEST(Hybrid, SwitchesToPromisesOnStarvationAndBackWhenIdle) {
  ModelNode node;
  const VgpuId game = node.AddVgpu("game", Fps(30)), other = node.AddVgpu("other", Fps(30));
  node.AddProcess(game, {.gpu = milliseconds(20)});
  node.AddProcess(other, {.gpu = milliseconds(4)});
  node.SetPolicy("hybrid");
  node.RunFor(seconds(3));
  EXPECT_NEAR(Watch(node, game, seconds(2)).fps, 25, 2) << "half of the device is not enough for it";
  node.RunFor(seconds(2));
  const Seen game_paced = Watch(node, game, seconds(2));
  EXPECT_NEAR(game_paced.fps, 30, 1);
  EXPECT_NEAR(Watch(node, other, seconds(1)).fps, 30, 2);
  node.RunFor(seconds(5));
  // 30 · 24 ms = 72 % of the device: back to shares, with each program's use and half of the rest.
  EXPECT_GT(Watch(node, other, seconds(3)).fps, 40);
  EXPECT_GT(Watch(node, game, seconds(3)).fps, 30) << "its share is now 60 % + 14 %";
}

// Three programs need 36, 36 and 48 % of the device, and 95 % are divided. If the program that needs 48 % is the
// lightest, 23 % are left to it, which are 28.8 frames/s. If a program that needs 36 % is the lightest, 11 % are left
// to it, which are 18.3 frames/s. Under `cap`, which paces no program, the lightest may use all that is left. The order
// is that of the weights, independent of the cost of frames.
TEST(Overload, TheLightestGivesWayUnderEveryPolicyThatKeepsRatesWhereThatIsWanted) {
  for (const std::string_view policy : core::PoliciesThatKeepRates()) {
    for (const std::size_t lightest : {0, 2}) {
      ModelNode node;
      std::vector<VgpuId> vgpus;
      for (std::size_t i = 0; i < 3; ++i) {
        VgpuSettings settings = Fps(60);
        settings.weight = i == lightest ? 50 : 200;
        vgpus.push_back(node.AddVgpu(std::string(1, static_cast<char>('a' + i)), settings));
        node.AddProcess(vgpus[i], {.think = milliseconds(2), .gpu = milliseconds(i == 2 ? 8 : 6)});
      }
      node.SetPolicy(std::string(policy), {{"give_way", 1.0}});
      node.RunFor(seconds(15));
      const double left = lightest == 2 ? 0.23 / 0.008 : 0.11 / 0.006;
      const double rest = lightest == 2 ? 0.28 / 0.008 : 0.16 / 0.006;
      for (std::size_t i = 0; i < 3; ++i) {
        const double fps = Watch(node, vgpus[i], seconds(10)).fps;
        EXPECT_GT(fps, i == lightest ? left - 2 : 58) << policy << ", vGPU " << i;
        if (i == lightest) {
          EXPECT_LT(fps, (policy == "cap" ? rest : left) + 2) << policy << ", vGPU " << i;
        }
      }
    }
  }
}

TEST(RoundRobin, GivesProgramsWithFramesOfAnyLengthTheSameGpuTime) {
  ModelNode node;
  const VgpuId a = node.AddVgpu("a", {}), b = node.AddVgpu("b", {}), c = node.AddVgpu("c", {});
  node.AddProcess(a, {.gpu = milliseconds(1)});
  node.AddProcess(b, {.gpu = milliseconds(4)});
  node.AddProcess(c, {.gpu = milliseconds(15)});
  node.SetPolicy("round-robin");
  node.RunFor(seconds(1));
  auto before = node.Snapshot();
  node.RunFor(seconds(20));
  // Between its frames, the think time of a and the time until the next poll are idle time of its turn.
  for (const VgpuId vgpu : {a, b, c}) EXPECT_NEAR(node.ShareSince(before, vgpu), 1.0 / 3, 0.04);
}

}  // namespace
}  // namespace weir::engine
