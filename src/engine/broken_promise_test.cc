// SPDX-License-Identifier: Apache-2.0
// When a promise counts as broken, on a modelled node: if work of the vGPU waited for others, at any place, and only
// then.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/model_node.h"

namespace weir::engine {
namespace {

using testing::ModelLoop;
using testing::ModelNode;

struct Counted {
  double late = 0, broken = 0;  // of the frames
};

/// Counts the late and the broken frames of the vGPU in the next `span`.
Counted Count(ModelNode& node, VgpuId id, Duration span = seconds(5)) {
  const core::FrameTotals before = node.engine().Vgpu(node.now(), id)->totals;
  node.RunFor(span);
  const core::FrameTotals after = node.engine().Vgpu(node.now(), id)->totals;
  const auto frames = static_cast<double>(after.frames - before.frames);
  return {static_cast<double>(after.late_frames - before.late_frames) / frames,
          static_cast<double>(after.broken_frames - before.broken_frames) / frames};
}

VgpuSettings SoldAt(double fps, double cap = 1) {
  VgpuSettings settings;
  settings.fps = fps;
  settings.cap = Share::FromFraction(cap);
  return settings;
}

std::size_t Broken(ModelNode& node, const std::string& vgpu) {
  return static_cast<std::size_t>(std::ranges::count_if(
      node.TakeNotes(), [&](const auto& noted) { return noted.note.kind == "broken" && noted.note.vgpu == vgpu; }));
}

TEST(BrokenFrames, AProgramThatAsksLessOftenHasNone) {
  ModelNode node;
  const VgpuId idle = node.AddVgpu("idle", SoldAt(60)), other = node.AddVgpu("other", {});
  node.AddProcess(idle, {.think = milliseconds(40), .gpu = milliseconds(4)});
  node.AddProcess(other, {.gpu = milliseconds(5)});
  node.RunFor(seconds(2));
  const Counted seen = Count(node, idle);
  EXPECT_GT(seen.late, 0.99) << "it draws 20 frames/s";
  EXPECT_LT(seen.broken, 0.01);
}

TEST(BrokenFrames, OfAProgramThatIsAloneThereAreNone) {
  ModelNode node;
  const VgpuId slow = node.AddVgpu("slow", SoldAt(60));
  node.AddProcess(slow, {.think = milliseconds(2), .gpu = milliseconds(25)});
  node.RunFor(seconds(2));
  const Counted seen = Count(node, slow);
  EXPECT_GT(seen.late, 0.99);
  EXPECT_EQ(seen.broken, 0) << "its frames are too expensive";
}

// The policy none lets all work into the driver at once, so that frames wait there and not at a gate.
TEST(BrokenFrames, AWaitInTheDriverCountsAsOneAtTheGate) {
  for (const char* policy : {"none", "proportional-share"}) {
    ModelNode node;
    node.SetPolicy(policy);
    const VgpuId game = node.AddVgpu("game", SoldAt(60)), other = node.AddVgpu("other", {});
    node.AddProcess(game, {.think = milliseconds(3), .gpu = milliseconds(9), .jitter = 0});
    for (int i = 0; i < 3; ++i) node.AddProcess(other, {.gpu = milliseconds(9)});
    node.RunFor(seconds(2));
    const Counted seen = Count(node, game);
    EXPECT_GT(seen.late, 0.9) << policy;
    EXPECT_GT(seen.broken, 0.9) << policy;
  }
}

TEST(BrokenFrames, AProgramAtItsOwnCapHasWhatWasSold) {
  ModelNode node;
  node.SetPolicy("cap");
  const VgpuId game = node.AddVgpu("game", SoldAt(60, 0.2)), other = node.AddVgpu("other", {});
  node.AddProcess(game, {.think = milliseconds(1), .gpu = milliseconds(10), .jitter = 0.05});
  node.AddProcess(other, {.gpu = milliseconds(2)});
  node.RunFor(seconds(2));
  const Counted seen = Count(node, game);
  EXPECT_GT(seen.late, 0.4) << "two frames in each tenth of a second, of which the first one waits";
  EXPECT_LT(seen.broken, 0.05);
}

// Frames that wait in the driver have passed the gate, so that polls do not see them wait.
TEST(BrokenPromises, OfFramesInTheDriverAreToldOnASoldDevice) {
  ModelNode node;
  node.SetPolicy("none");
  ASSERT_TRUE(node.Do(SetOversell{"", core::OversellMode::kStatic, {{"ratio", 3}}}));
  const VgpuId game = node.AddVgpu("game", SoldAt(60)), other = node.AddVgpu("other", {});
  node.AddProcess(game, {.think = milliseconds(3), .gpu = milliseconds(8), .jitter = 0.05});
  node.RunFor(seconds(3));
  EXPECT_EQ(Broken(node, "game"), 0U);
  for (int i = 0; i < 4; ++i) node.AddProcess(other, {.gpu = milliseconds(2)});
  node.RunFor(seconds(5));
  EXPECT_GE(Broken(node, "game"), 1U);
}

TEST(BrokenPromises, AreNotThoseOfAProgramThatAsksLessOften) {
  for (const char* policy : {"none", "cap"}) {
    ModelNode node;
    node.SetPolicy(policy);
    ASSERT_TRUE(node.Do(SetOversell{"", core::OversellMode::kAdaptive, {}}));
    const VgpuId game = node.AddVgpu("game", SoldAt(60, 0.6)), other = node.AddVgpu("other", SoldAt(0, 0.4));
    node.AddProcess(game, {.think = milliseconds(40), .gpu = milliseconds(5)});
    node.AddProcess(other, {.gpu = milliseconds(9)});
    node.RunFor(seconds(10));
    EXPECT_EQ(Broken(node, "game"), 0U) << policy;
  }
}

}  // namespace
}  // namespace weir::engine
