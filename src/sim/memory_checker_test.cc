// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "sim/checkers.h"
#include "sim/simulation.h"

namespace weir::sim {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

/// Two programs of 512 MiB on a device of 768, one of them limited to 256.
Scenario Two() {
  Scenario scenario;
  scenario.span = seconds(10);
  scenario.devices[0].memory = MiB(768);
  scenario.devices[0].link_bytes_per_s = 64.0 * 1024 * 1024 * 100;  // a hundred slots a second
  for (const char* name : {"held", "free"}) {
    Tenant tenant;
    tenant.name = name;
    tenant.memory = MiB(512);
    tenant.scenes = {{.gpu = milliseconds(5)}};
    scenario.tenants.push_back(tenant);
  }
  scenario.tenants[0].settings.memory_max = MiB(256);
  return scenario;
}
sim::Run Plain() { return {.label = "none", .policy = "none"}; }

std::vector<std::string> Play(const Scenario& scenario, const sim::Run& run, const Tamper& tamper = {}) {
  Simulation simulation(scenario, run, {.tamper = tamper});
  simulation.RunUntil(scenario.span);
  const RunRecord record = simulation.Take();
  EXPECT_TRUE(record.violations.empty());
  EXPECT_GT(record.tenants[0].frame_count, 0u);
  EXPECT_GT(record.tenants[1].frame_count, record.tenants[0].frame_count);
  return CheckMemory(scenario, run, record);
}

TEST(CheckMemory, LimitsHoldWhileTheyChangeAndTheDaemonIsDead) {
  const Scenario plain = Two();
  EXPECT_EQ(Play(plain, Plain()), std::vector<std::string>{});
  sim::Run run = Plain();
  for (const auto& [at, mb] : {std::pair{3, 128}, std::pair{5, 64}, std::pair{7, 320}}) {
    sim::ScenarioChange& change = run.changes.emplace_back();
    change.at = seconds(at);
    change.tenant = "held";
    change.settings.memory_max = MiB(mb);
  }
  Scenario faulty = plain;
  faulty.faults = {{.kind = FaultKind::kDaemonCrash, .at = milliseconds(4500), .until = milliseconds(5500)},
                   {.kind = FaultKind::kProcessKill, .at = seconds(8), .until = seconds(9), .tenant = "held"}};
  EXPECT_EQ(Play(faulty, run), std::vector<std::string>{});
}

TEST(CheckMemory, FindsAnEngineThatPublishesNoLimit) {
  const auto forget = [](Instant, engine::Actions& actions) {
    for (engine::Publish& publish : actions.publish) publish.memory.limit = 0;
  };
  Scenario scenario = Two();
  scenario.tenants[1].start = seconds(1);
  Simulation simulation(scenario, scenario.runs.emplace_back(Plain()), {.tamper = {.actions = forget}});
  simulation.RunUntil(scenario.span);
  const auto objections = CheckMemory(scenario, Plain(), simulation.Take());
  ASSERT_EQ(objections.size(), 2u);  // at the start of 'held', and at that of 'free'
  EXPECT_TRUE(objections[0].starts_with("memory: 0.000 s: 'held' holds 8 slots of its 4")) << objections[0];
}

/// Four programs of six slots each on a device of sixteen: at least one of them always waits.
Scenario FourByTurns() {
  Scenario scenario;
  scenario.span = seconds(20);
  scenario.devices[0].memory = MiB(1024);
  for (const char* name : {"a", "b", "c", "d"}) {
    Tenant tenant;
    tenant.name = name;
    tenant.memory = MiB(384);
    tenant.settings.memory_min = MiB(128);
    tenant.scenes = {{.gpu = milliseconds(5)}};
    scenario.tenants.push_back(tenant);
  }
  sim::Run& run = scenario.runs.emplace_back();
  run.label = "by-turns";
  run.memory = MemoryMode::kElastic;
  run.memory_params = *core::CheckBalloonParams({});
  return scenario;
}
std::vector<std::string> PlayByTurns(const Scenario& scenario, const Tamper& tamper) {
  Simulation simulation(scenario, scenario.runs[0], {.tamper = tamper});
  simulation.RunUntil(scenario.span);
  return CheckMemory(scenario, scenario.runs[0], simulation.Take());
}

TEST(CheckMemory, ElasticMemoryHoldsAlsoWhenItsDaemonIsAnother) {
  Scenario scenario = FourByTurns();
  EXPECT_EQ(PlayByTurns(scenario, {}), std::vector<std::string>{});
  scenario.faults = {{.kind = FaultKind::kDaemonCrash, .at = seconds(3), .until = milliseconds(3200)},
                     {.kind = FaultKind::kProcessKill, .at = seconds(6), .until = seconds(7), .tenant = "b"}};
  EXPECT_EQ(PlayByTurns(scenario, {}), std::vector<std::string>{});
}

TEST(CheckMemory, FindsAnEngineThatGivesAwayWhatIsStillThere) {
  const auto all_of_it = [](Instant, engine::Actions& actions) {
    for (engine::Publish& publish : actions.publish) publish.memory.here = publish.memory.limit;
  };
  const auto objections = PlayByTurns(FourByTurns(), {.actions = all_of_it});
  ASSERT_FALSE(objections.empty());
  EXPECT_NE(objections[0].find("of the 16 of device 0"), std::string::npos) << objections[0];
}

TEST(CheckMemory, FindsAnEngineThatGivesMoreThanItLetsHold) {
  const auto one_more = [](Instant, engine::Actions& actions) {
    for (engine::Publish& publish : actions.publish) publish.memory.here += publish.vgpu.value == 1 ? 1 : 0;
  };
  const auto objections = PlayByTurns(FourByTurns(), {.actions = one_more});
  ASSERT_FALSE(objections.empty());
  EXPECT_NE(objections[0].find("are its own"), std::string::npos) << objections[0];
}

TEST(CheckMemory, FindsAnEngineThatServesSomebodyNoMore) {
  const auto forget_one = [](Instant, engine::Actions& actions) {
    for (engine::Publish& publish : actions.publish)
      if (publish.vgpu.value == 2) publish.memory.here = 0;
  };
  Scenario scenario = FourByTurns();
  scenario.span = seconds(60);
  const auto objections = PlayByTurns(scenario, {.actions = forget_one});
  ASSERT_FALSE(objections.empty());
  EXPECT_NE(objections[0].find("'b' has waited for its memory for"), std::string::npos) << objections[0];
}

TEST(CheckMemory, FindsAnExecutorThatKeepsWhatItWasToldToGiveUp) {
  Scenario scenario = FourByTurns();
  RunRecord record;
  record.span_ns = 60 * kSecondNs;
  record.tenants.resize(1);
  record.tenants[0].name = "a";
  record.tenants[0].held = {{0, 6}};
  record.tenants[0].here = {{0, 6}, {kSecondNs, 2}};
  record.tenants[0].memory = {{0, 6}, {2 * kSecondNs, 2}};
  EXPECT_TRUE(CheckMemory(scenario, scenario.runs[0], record).empty());
  record.tenants[0].memory.pop_back();
  EXPECT_EQ(CheckMemory(scenario, scenario.runs[0], record).size(), 1u);
}

TEST(CheckMemory, IsReckonedFromTheRecord) {
  const Scenario scenario = Two();
  RunRecord record;
  record.tenants.resize(2);
  record.tenants[0].name = "held", record.tenants[1].name = "free";
  const auto count = [&] { return CheckMemory(scenario, Plain(), record).size(); };
  record.tenants[0].memory = {{0, 4}};
  record.tenants[1].memory = {{kSecondNs, 8}};
  EXPECT_EQ(count(), 0u);
  record.tenants[1].memory.push_back({2 * kSecondNs, 9});  // more than the device has
  EXPECT_EQ(count(), 1u);
  record.tenants[1].memory.pop_back();
  record.tenants[0].frame_count = 10;  // without any copies
  EXPECT_EQ(count(), 1u);
  record.tenants[0].copied_slots_by_s = {44};
  EXPECT_EQ(count(), 0u);
  record.tenants[1].copied_slots_by_s.assign(10, 101);  // more than the link carries
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace weir::sim
