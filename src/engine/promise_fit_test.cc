// SPDX-License-Identifier: Apache-2.0
// What the engine reports about promised rates: whether the policy keeps them, what they need, and whether that fits.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/model_node.h"

namespace weir::engine {
namespace {

using testing::ModelNode;

VgpuSettings Promised(double fps, std::uint32_t weight = 100) {
  VgpuSettings settings;
  settings.weight = weight;
  settings.fps = fps;
  return settings;
}

/// The texts of the device's notes of `kind`.
std::vector<std::string> NotesOf(ModelNode& node, const std::string& kind) {
  std::vector<std::string> texts;
  for (const auto& noted : node.TakeNotes())
    if (noted.note.kind == kind) texts.push_back(noted.note.text);
  return texts;
}

TEST(PromisedRates, AreIgnoredByTheDefaultPolicyWithAWarning) {
  ModelNode node;
  const VgpuId game = node.AddVgpu("game", Promised(60)), job = node.AddVgpu("job", {});
  const PromiseStatus promise = node.engine().Promise(game);
  EXPECT_TRUE(promise.given);
  EXPECT_FALSE(promise.kept_by_policy);
  ASSERT_EQ(promise.warnings.size(), 1U);
  EXPECT_EQ(promise.warnings[0],
            "the policy of embedded, proportional-share, ignores promised rates and latencies; 'weir policy sla-aware "
            "--device embedded' keeps them (as do: hybrid, cap)");
  EXPECT_FALSE(node.engine().Promise(job).given);
  EXPECT_TRUE(node.engine().Promise(job).warnings.empty()) << "nothing is promised";
  EXPECT_FALSE(node.engine().Promise(VgpuId{99}).given);
}

TEST(PromisedRates, OfALatencyOrOfTasksAreRatesToo) {
  ModelNode node;
  VgpuSettings latency, tasks;
  latency.latency = milliseconds(20);
  tasks.tasks_per_s = 5;
  EXPECT_EQ(node.engine().Promise(node.AddVgpu("a", latency)).warnings.size(), 1U);
  EXPECT_EQ(node.engine().Promise(node.AddVgpu("b", tasks)).warnings.size(), 1U);
}

// Whether a policy keeps rates is in its entry of the table; for `cap` it depends on a parameter.
TEST(PromisedRates, AreKeptByThePoliciesThatSaySo) {
  ModelNode node;
  const VgpuId game = node.AddVgpu("game", Promised(60));
  for (const core::PolicyEntry& entry : core::PolicyTable()) {
    node.SetPolicy(std::string(entry.name));
    EXPECT_EQ(node.engine().Promise(game).warnings.empty(), entry.rates.keeps) << entry.name;
    EXPECT_EQ(node.engine().Devices(node.now()).front().warnings.empty(), entry.rates.keeps) << entry.name;
  }
  node.SetPolicy("cap", {{"ahead_ms", 0}});
  EXPECT_FALSE(node.engine().Promise(game).kept_by_policy);
}

TEST(PromisedRates, ADeviceNamesThoseThatItsPolicyIgnores) {
  ModelNode node;
  EXPECT_TRUE(node.engine().Devices(node.now()).front().warnings.empty());
  for (const char* name : {"g", "f", "e", "d", "c", "b", "a"}) node.AddVgpu(name, Promised(30));
  const auto warnings = node.engine().Devices(node.now()).front().warnings;
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].ends_with("promised to: a, b, c, d, e and 2 more")) << warnings[0];
}

TEST(PromiseFits, ACostIsUnknownBeforeTheFirstFramesAndLearnedThen) {
  ModelNode node;
  node.SetPolicy("sla-aware");
  const VgpuId game = node.AddVgpu("game", Promised(50));
  PromiseStatus promise = node.engine().Promise(game);
  EXPECT_EQ(promise.fit, PromiseFit::kUnknown);
  EXPECT_EQ(promise.text,
            "50 frames/s; 0 % of embedded is promised to others; its cost is not known yet: 'weir vgpu show game' says "
            "later whether it fits");
  node.AddProcess(game, {.think = milliseconds(1), .gpu = milliseconds(5)});
  node.RunFor(seconds(2));
  promise = node.engine().Promise(game);
  EXPECT_EQ(promise.fit, PromiseFit::kFits);
  EXPECT_EQ(promise.cost.loops, 1U);
  EXPECT_NEAR(promise.need, 0.25, 0.02);
  EXPECT_TRUE(promise.text.ends_with("0 % of embedded is promised to others: it fits")) << promise.text;
  EXPECT_TRUE(promise.warnings.empty());
}

// The program that was promised less than it draws needs only what was promised.
TEST(PromiseFits, WhatIsDrawnBeyondThePromiseIsNotNeeded) {
  ModelNode node;
  const VgpuId greedy = node.AddVgpu("greedy", Promised(20));
  node.AddProcess(greedy, {.gpu = milliseconds(5)});
  node.RunFor(seconds(2));
  EXPECT_NEAR(node.engine().Promise(greedy).need, 0.1, 0.01);
  EXPECT_GT(node.engine().Vgpu(node.now(), greedy)->gpu_use, 0.9);
}

TEST(PromiseFits, TheNextPromiseSeesWhatIsPromisedToOthers) {
  ModelNode node;
  const VgpuId first = node.AddVgpu("first", Promised(50));
  node.AddProcess(first, {.gpu = milliseconds(10)});
  node.RunFor(seconds(2));
  node.AddVgpu("silent", Promised(10));
  const VgpuId second = node.AddVgpu("second", Promised(60)), plain = node.AddVgpu("plain", {});
  const PromiseStatus promise = node.engine().Promise(second);
  EXPECT_NEAR(promise.others, 0.5, 0.05);
  EXPECT_EQ(promise.others_unknown, 1U) << "the silent one";
  EXPECT_NE(promise.text.find("is promised to others, besides 1 vGPU whose cost is not known yet"), std::string::npos)
      << promise.text;
  EXPECT_EQ(node.engine().Devices(node.now()).front().promised_unknown, 2U);
  ASSERT_TRUE(node.Do(RemoveVgpu{first}));
  EXPECT_EQ(node.engine().Promise(second).others, 0) << "at once";
  static_cast<void>(plain);
}

TEST(PromiseFits, APromiseBeyondItsOwnCapDoesNotFit) {
  ModelNode node;
  node.SetPolicy("sla-aware");
  VgpuSettings settings = Promised(60);
  settings.cap = Share::FromFraction(0.2);
  const VgpuId game = node.AddVgpu("game", settings);
  node.AddProcess(game, {.gpu = milliseconds(10)});
  node.RunFor(seconds(2));
  const PromiseStatus promise = node.engine().Promise(game);
  EXPECT_EQ(promise.fit, PromiseFit::kTooMuch);
  EXPECT_TRUE(promise.text.ends_with("more than the cap of 20 %")) << promise.text;
  EXPECT_EQ(promise.warnings,
            std::vector<std::string>{"its promise does not fit its cap: raise the cap, or promise less"});
  EXPECT_NEAR(node.engine().Devices(node.now()).front().promised, 0.2, 1e-6) << "it can't have more";
}

TEST(PromiseFits, APromiseBeyondTheDeviceSaysByHowMuch) {
  ModelNode node;
  const VgpuId game = node.AddVgpu("game", Promised(300));
  node.AddProcess(game, {.gpu = milliseconds(5), .jitter = 0});
  node.RunFor(seconds(2));
  EXPECT_EQ(node.engine().Promise(game).text,
            "300 frames/s need 150 % of embedded; 0 % of embedded is promised to others: it does not fit");
}

struct Overpromised {
  ModelNode node;
  VgpuId heavy, light;
  explicit Overpromised(const core::PolicyParams& sold = {}) {
    node.SetPolicy("sla-aware");
    EXPECT_TRUE(node.Do(SetOversell{"", core::OversellMode::kOff, sold}));
    heavy = node.AddVgpu("heavy", Promised(60, 200));
    light = node.AddVgpu("light", Promised(30, 50));
    node.AddProcess(heavy, {.gpu = milliseconds(10)});
    node.AddProcess(light, {.gpu = milliseconds(10)});
    node.RunFor(seconds(10));
  }
};

TEST(PromiseFits, AnEventNamesWhoGivesWayAndAnotherSaysThatAllFitsAgain) {
  Overpromised over;
  std::vector<std::string> notes = NotesOf(over.node, "fits");
  EXPECT_TRUE(notes.empty()) << "60 and 30 % fit";
  ASSERT_TRUE(over.node.Do(SetVgpu{over.light, Promised(60, 50)}));
  over.node.RunFor(seconds(2));
  EXPECT_TRUE(NotesOf(over.node, "overpromised").empty()) << "not at once: costs vary";
  over.node.RunFor(seconds(10));
  notes = NotesOf(over.node, "overpromised");
  ASSERT_EQ(notes.size(), 1U) << "said once";
  EXPECT_TRUE(notes[0].ends_with("but those of: light")) << notes[0];
  EXPECT_FALSE(over.node.engine().Devices(over.node.now()).front().promises_fit);
  EXPECT_EQ(over.node.engine().Promise(over.heavy).fit, PromiseFit::kTooMuch);
  EXPECT_FALSE(over.node.engine().Promise(over.heavy).warnings.empty());
  ASSERT_TRUE(over.node.Do(SetVgpu{over.light, Promised(20, 50)}));
  over.node.RunFor(seconds(10));
  EXPECT_EQ(NotesOf(over.node, "fits").size(), 1U);
}

TEST(PromiseFits, AreRefusedWhereTheDeviceIsSoldSo) {
  Overpromised warns, refuses({{"refuse_rates", 1}});
  EXPECT_TRUE(warns.node.Do(SetVgpu{warns.light, Promised(60, 50)}));
  const Status refused = refuses.node.Do(SetVgpu{refuses.light, Promised(60, 50)});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kResourceExhausted);
  EXPECT_TRUE(refused.error().message.starts_with("the promise does not fit: 60 frames/s need "))
      << refused.error().message;
  EXPECT_EQ(refuses.node.engine().Vgpu(refuses.node.now(), refuses.light)->settings.fps, 30) << "nothing has changed";
  EXPECT_TRUE(refuses.node.Do(SetVgpu{refuses.light, Promised(20, 50)})) << "less fits";
  EXPECT_TRUE(refuses.node.Do(CreateVgpu{.name = "new", .device = "", .settings = Promised(60), .id = {}}))
      << "the cost of its frames is not known";
}

// What was promised before is not refused, also not when a new daemon restores it.
TEST(PromiseFits, WhatWasPromisedBeforeIsNotRefused) {
  Overpromised over;
  ASSERT_TRUE(over.node.Do(SetVgpu{over.light, Promised(100, 50)}));
  ASSERT_TRUE(over.node.Do(SetOversell{"", core::OversellMode::kOff, {{"refuse_rates", 1}}}));
  EXPECT_TRUE(over.node.Do(SetVgpu{over.light, Promised(100, 60)})) << "only its weight changes";
  CreateVgpu made{.name = "new", .device = "", .settings = Promised(60), .id = {}};
  EXPECT_FALSE(over.node.Do(made)) << "nothing is left";
  made.restored = true;
  EXPECT_TRUE(over.node.Do(made));
}

}  // namespace
}  // namespace weir::engine
