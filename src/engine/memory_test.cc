// SPDX-License-Identifier: Apache-2.0
// Elastic memory through the engine: bounds, requests, orders, what is published, and notes for users.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/decision_text.h"
#include "engine/node_engine.h"

namespace weir::engine {
namespace {

Bytes SlotBytes(std::uint64_t slots) { return Bytes{slots * kSlotBytes.count}; }

/// A node of one device, with executors that obey immediately.
struct MemoryNode {
  explicit MemoryNode(std::uint64_t slots, core::PolicyParams params = {}) : engine({DeviceSpec{"gpu", "gpu", {}}}) {
    EXPECT_TRUE(Do(SetMemory{"", SlotBytes(slots), std::move(params), 1}).has_value());
  }
  Status Do(const Event& event) {
    const Status status = engine.Step(now, event, actions);
    for (const Publish& publish : actions.publish) granted[publish.vgpu] = publish.memory;
    for (const Decision& decision : actions.decisions) notes.push_back(NoteOf(decision));
    return status;
  }
  VgpuId Add(const std::string& name, std::uint64_t min, std::uint64_t max) {
    const Status added = Do(CreateVgpu{name, "", {.memory_min = SlotBytes(min), .memory_max = SlotBytes(max)}, {}});
    EXPECT_TRUE(added.has_value()) << added.error().message;
    const VgpuId id = actions.created;
    EXPECT_TRUE(Do(ProcessAttached{id, ProcessId{id.value}, false}).has_value());
    samples.push_back({.vgpu = id, .stats = {.threads = 1}});
    return id;
  }
  MemorySample& Of(VgpuId id) { return *std::ranges::find(samples, id, &MemorySample::vgpu); }
  void Look() {
    now += milliseconds(1);
    for (MemorySample& sample : samples)
      sample.stats.resident_slots = std::min<std::uint32_t>(
          static_cast<std::uint32_t>((sample.stats.made.count + kSlotBytes.count - 1) / kSlotBytes.count),
          granted[sample.vgpu].here);
    for (MemorySample& sample : samples) {
      if (const auto said = contents_said.find(sample.vgpu); said != contents_said.end())
        sample.stats.resident_slots = said->second;
      sample.stats.resident = SlotBytes(sample.stats.resident_slots);
    }
    std::vector<GateSample> gates;
    for (const MemorySample& sample : samples)
      gates.push_back({.vgpu = sample.vgpu, .in_flight = running[sample.vgpu] ? 1U : 0U});
    ASSERT_TRUE(Do(GatesSampled{gates, samples}).has_value());
  }
  void LookFor(Duration span) {
    for (const Instant until = now + span; now < until;) Look();
  }
  [[nodiscard]] MemoryStatus Memory() const { return engine.Devices(now).front().memory; }
  [[nodiscard]] bool HasNote(const std::string& kind) const {
    return std::ranges::any_of(notes, [&](const Note& note) { return note.kind == kind; });
  }

  NodeEngine engine;
  Actions actions;
  Instant now = InstantFromNs(1'000'000'000);
  std::vector<MemorySample> samples;
  std::map<VgpuId, MemoryGrant> granted;
  std::map<VgpuId, std::uint32_t> contents_said;  // slots of contents, of executors that do not obey
  std::map<VgpuId, bool> running;
  std::vector<Note> notes;
};

TEST(ElasticMemory, StartsAtTheMinimumAndGrowsOnDemand) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 2, 8);
  EXPECT_EQ(node.granted[a], (MemoryGrant{.elastic = true, .limit = 2, .here = 0, .max = 8}));
  node.Look();
  EXPECT_EQ(node.granted[a].here, 2u);
  node.Of(a).stats.made = node.Of(a).stats.need = node.Of(a).stats.must = SlotBytes(5);
  node.Look();
  EXPECT_EQ(node.granted[a].limit, 5u);
  EXPECT_EQ(node.granted[a].here, 5u);
  EXPECT_TRUE(node.HasNote("grown"));
  const VgpuStatus status = *node.engine.Vgpu(node.now, a);
  EXPECT_EQ(status.memory.limit, 5u);
  EXPECT_EQ(status.memory_min, 2u);
  EXPECT_EQ(status.memory_sample.stats.need, SlotBytes(5));
  EXPECT_EQ(node.Memory().slots, 16u);
  EXPECT_EQ(node.Memory().held, 5u);
  const MemoryMap map = *node.engine.Memory("gpu");
  EXPECT_EQ(map.slots.size(), 16u);
  EXPECT_EQ(std::ranges::count(map.slots, a, &SlotStatus::owner), 5);
  ASSERT_EQ(map.holders.size(), 1u);
  EXPECT_EQ(map.holders[0].name, "a");
}

// The executor is ended because other vGPUs wait for the slots of the order.
TEST(ElasticMemory, AnExecutorThatDoesNotCarryOutItsOrderIsEndedAndItsSlotsAreFree) {
  MemoryNode node(4, {{"answer_ms", 5000}});
  const VgpuId a = node.Add("a", 4, 4), b = node.Add("b", 4, 4);
  node.Of(a).stats.made = node.Of(a).stats.need = SlotBytes(4);
  node.LookFor(milliseconds(500));
  ASSERT_EQ(node.granted[a].here, 4u);
  node.Of(b).stats.made = node.Of(b).stats.need = node.Of(b).stats.must = SlotBytes(4);
  while (node.granted[a].here > 0) node.Look();
  // Its executor reports nothing more, and keeps its contents on the device.
  node.Of(a).done = false;
  const Instant ordered = node.now;
  while (node.actions.end.empty() && node.now < ordered + seconds(6)) node.Look();
  ASSERT_EQ(node.actions.end.size(), 1u);
  EXPECT_EQ(node.actions.end.front().vgpu, a);
  EXPECT_GE(node.now, ordered + seconds(5));
  EXPECT_TRUE(node.HasNote("executor-ended"));
  EXPECT_EQ(node.granted[b].here, 0u) << "memory that is not evicted is not assigned";
  ASSERT_TRUE(node.Do(ProcessDetached{a, ProcessId{a.value}, {}}).has_value());
  std::erase_if(node.samples, [a](const MemorySample& sample) { return sample.vgpu == a; });
  node.LookFor(milliseconds(500));
  EXPECT_EQ(node.granted[b].here, 4u);
}

TEST(ElasticMemory, AFalseReportOfContentsKeepsNoMoreFromOthersThanItsMaximum) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 1, 4), b = node.Add("b", 1, 0);
  node.contents_said[a] = ~0U;
  node.Of(b).stats.made = node.Of(b).stats.need = SlotBytes(10);
  node.LookFor(milliseconds(10));
  EXPECT_EQ(node.granted[b].here, 10u);
  const proto::ExecutorStatistics stats = node.engine.Vgpu(node.now, a)->memory_sample.stats;
  EXPECT_EQ(stats.resident_slots, 4u);
  EXPECT_EQ(stats.resident, SlotBytes(4));
  EXPECT_EQ(node.engine.Vgpu(node.now, b)->memory_sample.stats.resident_slots, 10u);
}

TEST(ElasticMemory, ContentsAboveALoweredMaximumAreBelievedUntilTheyAreEvicted) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 1, 8);
  node.Of(a).stats.made = node.Of(a).stats.need = SlotBytes(8);
  node.LookFor(milliseconds(10));
  ASSERT_EQ(node.granted[a].here, 8u);
  node.contents_said[a] = 8;
  node.Of(a).done = false;
  ASSERT_TRUE(node.Do(SetVgpu{a, {.memory_min = SlotBytes(1), .memory_max = SlotBytes(4)}}).has_value());
  node.LookFor(milliseconds(10));
  EXPECT_EQ(node.granted[a].here, 4u);
  EXPECT_EQ(node.engine.Vgpu(node.now, a)->memory_sample.stats.resident_slots, 8u);
  node.contents_said.erase(a);
  node.Of(a).done = true;
  node.LookFor(milliseconds(10));
  EXPECT_EQ(node.engine.Vgpu(node.now, a)->memory_sample.stats.resident_slots, 4u);
  node.contents_said[a] = ~0U;
  node.LookFor(milliseconds(10));
  EXPECT_EQ(node.engine.Vgpu(node.now, a)->memory_sample.stats.resident_slots, 8u);
}

TEST(ElasticMemory, ContentsFromBeforeMemoryWasElasticAgainAreBelieved) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 1, 4), b = node.Add("b", 1, 0);
  ASSERT_TRUE(node.Do(SetMemory{"gpu", {}, {}}).has_value());
  node.contents_said[a] = 10;
  ASSERT_TRUE(node.Do(SetMemory{"gpu", SlotBytes(16), {}}).has_value());
  node.Of(b).stats.made = node.Of(b).stats.need = SlotBytes(12);
  node.LookFor(milliseconds(10));
  EXPECT_EQ(node.engine.Vgpu(node.now, a)->memory_sample.stats.resident_slots, 10u);
  EXPECT_LE(node.granted[b].here, 6u);
}

TEST(ElasticMemory, AnExecutorThatFollowsItsOrdersIsNotEnded) {
  MemoryNode node(4, {{"answer_ms", 1000}});
  const VgpuId a = node.Add("a", 4, 4);
  for (int order = 0; order < 10; ++order) {
    node.Of(a).done = false;
    for (const Instant until = node.now + milliseconds(900); node.now < until;) {
      node.Look();
      ASSERT_TRUE(node.actions.end.empty());
    }
    node.Of(a).done = true;
    node.Look();
  }
  EXPECT_FALSE(node.HasNote("executor-ended"));
}

TEST(ElasticMemory, ARefusalIsReportedOnce) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 2, 4);
  node.Of(a).stats.made = node.Of(a).stats.need = SlotBytes(9);
  node.LookFor(seconds(3));
  EXPECT_EQ(node.granted[a].limit, 4u);
  EXPECT_EQ(std::ranges::count(node.notes, "not-grown", &Note::kind), 1);
}

TEST(ElasticMemory, BoundsOfARunningProgramMoveWhatItHoldsAtOnce) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 2, 4);
  node.Of(a).stats.made = node.Of(a).stats.need = SlotBytes(9);
  node.LookFor(milliseconds(10));
  ASSERT_TRUE(node.Do(SetVgpu{a, {.memory_min = SlotBytes(2), .memory_max = SlotBytes(9)}}).has_value());
  node.Look();
  EXPECT_EQ(node.granted[a].limit, 9u) << "it asked for more, and now may";
  ASSERT_TRUE(node.Do(SetVgpu{a, {.memory_min = SlotBytes(1), .memory_max = SlotBytes(3)}}).has_value());
  EXPECT_EQ(node.granted[a].limit, 3u) << "with the event";
  EXPECT_EQ(node.granted[a].here, 3u) << "never more its own than it holds";
  node.Look();
  EXPECT_EQ(node.granted[a].here, 3u);
  const Status refused = node.Do(SetVgpu{a, {.memory_min = SlotBytes(17)}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("the device has 16 slots"), std::string::npos) << refused.error().message;
  EXPECT_EQ(node.engine.Vgpu(node.now, a)->settings.memory_max, SlotBytes(3)) << "nothing has changed";
}

TEST(ElasticMemory, AMinimumThatCannotBeGuaranteedIsRefusedWithItsCap) {
  MemoryNode node(4, {{"sold_max", 1}});
  ASSERT_TRUE(node.Do(SetOversell{"", core::OversellMode::kStrict, {}}).has_value());
  ASSERT_TRUE(node.Do(CreateVgpu{"a", "", {.cap = Share::FromFraction(0.5), .memory_min = SlotBytes(3)}, {}}));
  const Status refused =
      node.Do(CreateVgpu{"b", "", {.cap = Share::FromFraction(0.5), .memory_min = SlotBytes(2)}, {}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kResourceExhausted);
  EXPECT_TRUE(node.Do(CreateVgpu{"c", "", {.cap = Share::FromFraction(0.5), .memory_min = SlotBytes(1)}, {}}))
      << "the cap of the one that was refused is free";
}

TEST(ElasticMemory, TwoVgpusWithSharedSlotsTakeTurns) {
  MemoryNode node(8, {{"turn_ms", 50}});
  const VgpuId a = node.Add("a", 6, 6), b = node.Add("b", 6, 6);
  for (const VgpuId id : {a, b}) node.Of(id).stats.made = node.Of(id).stats.need = SlotBytes(6);
  std::map<VgpuId, int> had;
  for (int ms = 0; ms < 2000; ++ms) {
    // The vGPU with all its slots assigned runs; the other one waits.
    for (const VgpuId id : {a, b}) {
      node.running[id] = node.granted[id].here == 6;
      node.Of(id).stats.must = node.running[id] ? Bytes{} : SlotBytes(6);
    }
    node.Look();
    ASSERT_LE(node.granted[a].here + node.granted[b].here, 8u);
    for (const VgpuId id : {a, b}) had[id] += node.granted[id].here == 6 ? 1 : 0;
  }
  EXPECT_GT(had[a], 850);
  EXPECT_GT(had[b], 850);
  EXPECT_NEAR(static_cast<double>(node.Memory().switches), 2000.0 / 52, 4);
}

TEST(ElasticMemory, ARemovedVgpuFreesItsSlots) {
  MemoryNode node(4);
  const VgpuId a = node.Add("a", 4, 4), b = node.Add("b", 4, 4);
  node.Of(a).stats.made = node.Of(a).stats.need = node.Of(a).stats.must = SlotBytes(4);
  node.Look();
  ASSERT_EQ(node.granted[a].here, 4u);
  ASSERT_TRUE(node.Do(RemoveVgpu{a}).has_value());
  std::erase_if(node.samples, [a](const MemorySample& sample) { return sample.vgpu == a; });
  node.Of(b).stats.made = node.Of(b).stats.need = node.Of(b).stats.must = SlotBytes(4);
  node.Look();
  EXPECT_EQ(node.granted[b].here, 4u);
}

TEST(ElasticMemory, LaunchesInPartsAreReportedOnceASecond) {
  MemoryNode node(4);
  const VgpuId a = node.Add("a", 1, 1);
  node.Look();
  const auto told = [&node](const std::string& kind) {
    std::vector<std::string> texts;
    for (const Note& note : node.notes)
      if (note.kind == kind) texts.push_back(note.vgpu + ": " + note.text);
    return texts;
  };
  EXPECT_TRUE(told("parts").empty());
  node.Of(a).stats.launches_in_parts = 1;
  node.Of(a).stats.parts = 3;
  node.Of(a).stats.parts_in = MiB(80);
  node.Of(a).stats.parts_out = MiB(40);
  node.Look();
  ASSERT_EQ(told("parts").size(), 1u) << "the first at once";
  EXPECT_EQ(told("parts")[0],
            "a: 1 launch ran in 3 parts, needing more memory than it may have: copied 80.0 MiB in and 40.0 MiB out");
  for (int i = 0; i < 500; ++i) {
    ++node.Of(a).stats.launches_in_parts;
    node.Of(a).stats.parts += 3;
    node.Look();
  }
  EXPECT_EQ(told("parts").size(), 1u);
  node.LookFor(seconds(3));
  ASSERT_EQ(told("parts").size(), 2u) << "what came meanwhile, together, and then nothing any more";
  EXPECT_NE(told("parts")[1].find("500 launches ran in 1500 parts"), std::string::npos) << told("parts")[1];
  EXPECT_TRUE(told("not-cut").empty());

  node.Of(a).stats.launches_not_cut = 1;
  node.Look();
  ASSERT_EQ(told("not-cut").size(), 1u);
  EXPECT_EQ(told("not-cut")[0], "a: 1 launch could not be cut: it fails, and its program gets the reason");
  EXPECT_EQ(told("parts").size(), 2u);
  EXPECT_EQ(node.engine.Vgpu(node.now, a)->memory_sample.stats.parts, 1503u);
}

TEST(ElasticMemory, AnotherExecutorsLaunchesInPartsCountFromTheirBeginning) {
  MemoryNode node(4);
  const VgpuId a = node.Add("a", 1, 1);
  node.Of(a).stats.launches_in_parts = 9;
  node.Of(a).stats.parts = 90;
  node.LookFor(seconds(2));
  node.Of(a).stats.launches_in_parts = 2;
  node.Of(a).stats.parts = 5;
  node.LookFor(seconds(2));
  // After an executor has ended, all launches of the next one are new, even if it reports the same numbers.
  const MemorySample last = node.Of(a);
  node.samples.clear();
  node.Look();
  EXPECT_EQ(node.engine.Vgpu(node.now, a)->memory_sample.stats.parts, 0u);
  node.samples.push_back(last);
  node.LookFor(seconds(2));
  std::vector<std::string> texts;
  for (const Note& note : node.notes)
    if (note.kind == "parts") texts.push_back(note.text.substr(0, note.text.find(',')));
  EXPECT_EQ(texts, (std::vector<std::string>{"9 launches ran in 90 parts", "2 launches ran in 5 parts",
                                             "2 launches ran in 5 parts"}));
}

TEST(ElasticMemory, CanBeTurnedOffAndOnAgain) {
  MemoryNode node(8);
  const VgpuId a = node.Add("a", 2, 4);
  node.Look();
  ASSERT_TRUE(node.Do(SetMemory{"", Bytes{}, {}, 1}).has_value());
  EXPECT_EQ(node.granted[a], (MemoryGrant{.limit = 4}));
  EXPECT_FALSE(node.engine.elastic());
  EXPECT_TRUE(node.engine.Memory("gpu")->slots.empty());
  ASSERT_TRUE(node.Do(SetMemory{"", SlotBytes(8), {}, 1}).has_value());
  node.Look();
  EXPECT_EQ(node.granted[a].here, 2u);
  EXPECT_FALSE(node.Do(SetMemory{"", SlotBytes(1), {{"sold_max", 1}}, 1}).has_value()) << "2 are guaranteed";
  EXPECT_EQ(node.Memory().slots, 8u) << "nothing has changed";
}

/// Reports the memory of the device `looks` times, twice a second, while other programs hold `slots` slots.
void OthersHold(MemoryNode& node, std::uint64_t slots, int looks = 3) {
  for (int i = 0; i < looks; ++i) {
    node.LookFor(milliseconds(500));
    std::uint64_t resident = 0;
    for (const MemorySample& sample : node.samples) resident += sample.stats.resident_slots;
    ASSERT_TRUE(node.Do(SeeDeviceMemory{"gpu", SlotBytes(slots + resident)}).has_value());
  }
}

TEST(WhatOthersHold, IsNotSharedOut) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 2, 0);
  node.Of(a).stats.made = node.Of(a).stats.need = SlotBytes(12);
  node.LookFor(milliseconds(10));
  ASSERT_EQ(node.granted[a].here, 12u);
  OthersHold(node, 0);
  EXPECT_EQ(node.Memory().slots, 16u) << "its own is not others'";
  OthersHold(node, 10);
  EXPECT_EQ(node.Memory().slots, 6u);
  EXPECT_EQ(node.Memory().size, 16u);
  EXPECT_EQ(node.Memory().others, 10u);
  EXPECT_EQ(node.granted[a].max, 6u) << "its programs see a smaller device";
  node.Look();
  EXPECT_EQ(node.granted[a].here, 6u);
  EXPECT_EQ(node.Of(a).stats.resident_slots, 6u);
  EXPECT_TRUE(node.HasNote("memory-others"));
  OthersHold(node, 0, 20);
  EXPECT_EQ(node.Memory().slots, 16u);
  EXPECT_EQ(node.granted[a].here, 12u) << "it asked again";
}

TEST(WhatOthersHold, IsHiddenByAFalseReportOfContentsUpToTheVgpusMaximumOnly) {
  MemoryNode node(16);
  node.contents_said[node.Add("a", 1, 4)] = ~0U;
  for (int looks = 0; looks < 3; ++looks) {
    node.LookFor(milliseconds(500));
    ASSERT_TRUE(node.Do(SeeDeviceMemory{"gpu", SlotBytes(10)}).has_value());
  }
  EXPECT_EQ(node.Memory().others, 6u);
  EXPECT_EQ(node.Memory().slots, 10u);
}

TEST(WhatOthersHold, KeepsSlotsThatFit) {
  MemoryNode node(16);
  const VgpuId a = node.Add("a", 1, 0), b = node.Add("b", 1, 0);
  node.Of(a).stats.made = node.Of(a).stats.need = SlotBytes(5);
  node.Of(b).stats.made = node.Of(b).stats.need = SlotBytes(3);
  node.LookFor(milliseconds(10));
  ASSERT_EQ(node.granted[a].here + node.granted[b].here, 8u);
  node.notes.clear();
  OthersHold(node, 4);
  EXPECT_EQ(node.Memory().slots, 12u);
  EXPECT_EQ(node.granted[a].here, 5u) << "with the event: nothing is evicted, and restored";
  EXPECT_EQ(node.granted[b].here, 3u);
  EXPECT_EQ(node.granted[a].limit, 5u);
  EXPECT_FALSE(node.HasNote("grown")) << "no vGPU had to ask";
}

TEST(WhatOthersHold, LeavesGuaranteedSlots) {
  MemoryNode node(16, {{"sold_max", 1}});
  node.Add("a", 6, 0);
  node.Add("b", 6, 0);
  OthersHold(node, 15);
  EXPECT_EQ(node.Memory().slots, 12u);
  EXPECT_NE(node.notes.back().text.find("guaranteed"), std::string::npos) << node.notes.back().text;
  const Status more = node.Do(CreateVgpu{"c", "", {.memory_min = SlotBytes(1)}, {}});
  EXPECT_FALSE(more.has_value()) << "there is no more to promise";
}

TEST(WhatOthersHold, SurvivesChangesOfTheSize) {
  MemoryNode node(16);
  OthersHold(node, 4);
  ASSERT_TRUE(node.Do(SetMemory{"", SlotBytes(8), {}, 1}).has_value());
  EXPECT_EQ(node.Memory().slots, 4u);
  EXPECT_EQ(node.Memory().size, 8u);
  ASSERT_TRUE(node.Do(SetMemory{"", Bytes{}, {}, 1}).has_value());
  OthersHold(node, 20);
  EXPECT_EQ(node.Memory().slots, 0u) << "not elastic";
  ASSERT_TRUE(node.Do(SetMemory{"", SlotBytes(8), {}, 1}).has_value());
  EXPECT_EQ(node.Memory().slots, 1u) << "one at least";
}

}  // namespace
}  // namespace weir::engine
