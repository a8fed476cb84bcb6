// SPDX-License-Identifier: Apache-2.0
// The caps that promised rates imply, on a modelled node.
#include <gtest/gtest.h>

#include <utility>

#include "tests/harness/model_node.h"

namespace weir::engine {
namespace {

using testing::ModelNode;

VgpuSettings AtRate(double fps, Share cap = Share::Whole()) {
  VgpuSettings settings;
  settings.fps = fps;
  settings.cap = cap;
  return settings;
}
double CapNow(ModelNode& node, VgpuId id) { return node.engine().Vgpu(node.now(), id)->cap_now.Fraction(); }
double RateNow(ModelNode& node, VgpuId id) { return node.engine().Vgpu(node.now(), id)->window.fps; }

/// A game whose frames take 4 ms, promised 60/s: 24 % of the device.
VgpuId AddGame(ModelNode& node, const std::string& name) {
  const VgpuId game = node.AddVgpu(name, AtRate(60));
  node.AddProcess(game, {.think = milliseconds(2), .gpu = milliseconds(4), .jitter = 0.05});
  return game;
}

TEST(ImpliedCaps, FollowWhatPromisesNeedWhileSeveralRun) {
  for (const char* policy : {"sla-aware", "hybrid", "cap"}) {
    ModelNode node;
    node.SetPolicy(policy, {{"cap_rates", 1}});
    const VgpuId game = AddGame(node, "game");
    node.RunFor(seconds(2));
    EXPECT_EQ(CapNow(node, game), 1) << policy << ": no other promise runs";
    const VgpuId other = node.AddVgpu("other", AtRate(30));
    const ProcessId process =
        node.AddProcess(other, {.think = milliseconds(2), .gpu = milliseconds(10), .jitter = 0.05});
    node.RunFor(seconds(3));
    EXPECT_NEAR(CapNow(node, game), 0.30, 0.03) << policy;
    EXPECT_NEAR(CapNow(node, other), 0.375, 0.04) << policy;
    node.EndProcess(process);
    node.RunFor(seconds(2));
    EXPECT_EQ(CapNow(node, game), 1) << policy << ": the other has ended";
  }
}

TEST(ImpliedCaps, AreOffUnlessAskedFor) {
  ModelNode node;
  node.SetPolicy("cap");
  const VgpuId game = AddGame(node, "game"), other = AddGame(node, "other");
  node.RunFor(seconds(2));
  EXPECT_EQ(CapNow(node, game), 1);
  node.SetPolicy("cap", {{"cap_rates", 1}});
  node.RunFor(seconds(1));
  EXPECT_LT(CapNow(node, other), 0.4);
  node.SetPolicy("proportional-share");
  EXPECT_EQ(CapNow(node, other), 1) << "the policy ignores rates";
}

TEST(ImpliedCaps, OfAnUnknownCostLeavesOthersWhatTheyNeed) {
  ModelNode node;
  node.SetPolicy("sla-aware", {{"cap_rates", 1}});
  const VgpuId game = AddGame(node, "game");
  node.RunFor(seconds(2));
  const VgpuId fresh = node.AddVgpu("fresh", AtRate(60));
  node.AddProcess(fresh, {.think = milliseconds(2), .gpu = milliseconds(300)});
  node.RunFor(milliseconds(60));
  EXPECT_NEAR(CapNow(node, fresh), 0.76, 0.03);
  EXPECT_EQ(node.engine().Promise(fresh).cost.loops, 0U);
  static_cast<void>(game);
}

// The promise of 60 frames/s is kept: the cap grows with the cost, soon enough, while there is room.
TEST(ImpliedCaps, GrowWhereFramesGetMoreExpensive) {
  // Under `cap` a cap takes effect at the next stage of 100 ms.
  for (const auto& [policy, late_most] : {std::pair{"sla-aware", 3U}, {"cap", 10U}}) {
    ModelNode node;
    node.SetPolicy(policy, {{"cap_rates", 1}});
    const VgpuId game = node.AddVgpu("game", AtRate(60));
    const ProcessId process = node.AddProcess(game, {.think = milliseconds(2), .gpu = milliseconds(3), .jitter = 0.05});
    AddGame(node, "other");
    node.RunFor(seconds(3));
    EXPECT_LT(CapNow(node, game), 0.3) << policy;
    const auto late = [&] { return node.engine().Vgpu(node.now(), game)->totals.late_frames; };
    const std::uint64_t before = late();
    node.SetLoop(process, {.think = milliseconds(2), .gpu = milliseconds(9), .jitter = 0.05});
    node.RunFor(milliseconds(700));
    EXPECT_LE(late() - before, late_most) << policy;
    node.RunFor(seconds(3));
    EXPECT_GE(CapNow(node, game), 0.6) << policy;
    EXPECT_GE(RateNow(node, game), 59) << policy;
  }
}

TEST(ImpliedCaps, KeepAHeavyNewcomerFromTakingTheDevice) {
  double rates[2] = {};
  for (const int on : {0, 1}) {
    ModelNode node;
    node.SetPolicy("hybrid", {{"cap_rates", static_cast<double>(on)}, {"wait_s", 3600}});
    const VgpuId game = node.AddVgpu("game", AtRate(60));
    node.AddProcess(game, {.think = milliseconds(6), .gpu = milliseconds(6), .jitter = 0.05});
    const VgpuId greedy = node.AddVgpu("greedy", AtRate(10));
    for (int i = 0; i < 3; ++i) node.AddProcess(greedy, {.gpu = milliseconds(7), .jitter = 0.05});
    node.RunFor(seconds(5));
    rates[on] = RateNow(node, game);
  }
  EXPECT_GE(rates[1], 57);
  EXPECT_GT(rates[1], rates[0]);
}

TEST(ImpliedCaps, AnOwnCapStays) {
  ModelNode node;
  node.SetPolicy("cap", {{"cap_rates", 1}});
  const VgpuId own = node.AddVgpu("own", AtRate(60, Share::FromFraction(0.5)));
  node.AddProcess(own, {.think = milliseconds(2), .gpu = milliseconds(2)});
  const VgpuId game = AddGame(node, "game");
  node.RunFor(seconds(2));
  EXPECT_EQ(CapNow(node, own), 0.5);
  EXPECT_LT(CapNow(node, game), 0.4);
}

// What was used while no cap was in force is no debt.
TEST(ImpliedCaps, BeginWithoutDebt) {
  ModelNode node;
  node.SetPolicy("hybrid", {{"cap_rates", 1}, {"wait_s", 3600}});
  const VgpuId game = node.AddVgpu("game", AtRate(60)), other = node.AddVgpu("other", AtRate(30));
  const ProcessId process = node.AddProcess(game, {.think = milliseconds(2), .gpu = milliseconds(4), .jitter = 0.05});
  const ModelLoop beside{.think = milliseconds(2), .gpu = milliseconds(5), .jitter = 0.05};
  const ProcessId first = node.AddProcess(other, beside);
  node.RunFor(seconds(3));
  ASSERT_LT(CapNow(node, game), 0.4);
  node.EndProcess(first);
  node.SetLoop(process, {.gpu = milliseconds(4), .jitter = 0.05});
  node.RunFor(seconds(10));
  ASSERT_EQ(CapNow(node, game), 1) << "it uses the whole device";
  node.SetLoop(process, {.think = milliseconds(2), .gpu = milliseconds(4), .jitter = 0.05});
  node.AddProcess(other, beside);
  node.RunFor(milliseconds(1500));
  EXPECT_GE(RateNow(node, game), 59);
}

// Under `cap`, the time of an idle device is lent beyond an implied cap.
TEST(ImpliedCaps, TheRestOfTheDeviceIsLentUnderCap) {
  ModelNode node;
  node.SetPolicy("cap", {{"cap_rates", 1}});
  const VgpuId greedy = node.AddVgpu("greedy", AtRate(20));
  node.AddProcess(greedy, {.gpu = milliseconds(2), .jitter = 0.05});
  AddGame(node, "game");
  node.RunFor(seconds(3));
  EXPECT_LT(CapNow(node, greedy), 0.2);
  EXPECT_GT(node.engine().Vgpu(node.now(), greedy)->gpu_use, 0.3);
}

}  // namespace
}  // namespace weir::engine
