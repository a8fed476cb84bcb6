// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "sim/checkers.h"
#include "sim/metrics.h"

namespace weir::sim {
namespace {

Tenant Program(const std::string& name, double gpu_ms, double cpu_ms = 0, double jitter = 0.1) {
  Tenant tenant;
  tenant.name = name;
  tenant.scenes = {{.cpu = FromSeconds(cpu_ms * 1e-3), .gpu = FromSeconds(gpu_ms * 1e-3), .jitter = jitter}};
  return tenant;
}

Scenario Of(std::vector<Tenant> tenants, Duration span = seconds(20)) {
  Scenario scenario;
  scenario.name = "test";
  scenario.span = span;
  scenario.warm_up = seconds(2);
  scenario.tenants = std::move(tenants);
  return scenario;
}

RunRecord Play(const Scenario& scenario, const std::string& policy, std::uint64_t seed = 1) {
  Run run{.label = policy, .policy = policy};
  run.params = *core::CheckParams(**core::FindPolicy(policy), {});
  Simulation simulation(scenario, run, {.seed = seed});
  simulation.RunUntil(scenario.span);
  RunRecord record = simulation.Take();
  EXPECT_TRUE(record.violations.empty()) << record.violations.front();
  return record;
}

double Get(const RunRecord& run, const char* metric, const std::string& tenant, double parameter = 0) {
  const auto value =
      Measure(std::span(&run, 1), {.metric = metric, .run = run.label, .tenant = tenant, .parameter = parameter});
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return value ? *value : 0;
}

TEST(Simulation, ALoneProgramRunsAsFastAsTheDeviceLetsIt) {
  const RunRecord run = Play(Of({Program("a", 10)}), "none");
  EXPECT_NEAR(Get(run, "fps", "a"), 100, 2);
  EXPECT_NEAR(Get(run, "gpu_use", "a"), 1, 0.02);
}

TEST(Simulation, DrawingAndRenderingOverlap) {
  // 8 ms on the CPU and 8 ms on the device: queued frames keep both busy.
  Tenant tenant = Program("a", 8, 8);
  tenant.queue = 8;
  EXPECT_GT(Get(Play(Of({tenant}), "none"), "fps", "a"), 110);
}

TEST(Simulation, FirstComeFirstServedFavoursWhoKeepsMoreQueued) {
  Tenant greedy = Program("greedy", 6), modest = Program("modest", 20);
  greedy.batch = milliseconds(6);
  modest.batch = milliseconds(2);
  const RunRecord run = Play(Of({greedy, modest}), "none");
  EXPECT_GT(Get(run, "gpu_share", "greedy"), 0.6);
}

TEST(Simulation, SharesAreThoseOfTheWeights) {
  Tenant a = Program("a", 4), b = Program("b", 9), c = Program("c", 2);
  a.settings.weight = 50, b.settings.weight = 30, c.settings.weight = 20;
  const RunRecord run = Play(Of({a, b, c}, seconds(30)), "proportional-share");
  EXPECT_NEAR(Get(run, "gpu_share", "a"), 0.5, 0.01);
  EXPECT_NEAR(Get(run, "gpu_share", "b"), 0.3, 0.01);
  EXPECT_NEAR(Get(run, "gpu_share", "c"), 0.2, 0.01);
}

TEST(Simulation, PacedProgramsKeepTheirRates) {
  Tenant a = Program("a", 3, 2), b = Program("b", 12, 4);
  a.settings.fps = 60, b.settings.fps = 30;
  const RunRecord run = Play(Of({a, b}), "sla-aware");
  EXPECT_NEAR(Get(run, "fps", "a"), 60, 0.6);
  EXPECT_NEAR(Get(run, "fps", "b"), 30, 0.3);
  EXPECT_LT(Get(run, "late", "a", 1000.0 / 60 + 1), 0.01);
}

TEST(Simulation, ScenesFollowOneAnother) {
  Tenant tenant = Program("a", 1);
  tenant.scenes = {{.length = seconds(5), .gpu = milliseconds(10)}, {.length = seconds(5), .gpu = milliseconds(20)}};
  const RunRecord run = Play(Of({tenant}), "none");
  const auto fps = [&](double from, double to) {
    return *Measure(std::span(&run, 1), {.metric = "fps", .run = "none", .tenant = "a", .from_s = from, .to_s = to});
  };
  EXPECT_NEAR(fps(1, 5), 100, 2);
  EXPECT_NEAR(fps(6, 10), 50, 2);
  EXPECT_NEAR(fps(11, 15), 100, 2);
}

TEST(Simulation, TenantsComeAndGo) {
  Tenant guest = Program("guest", 10);
  guest.start = seconds(5), guest.end = seconds(10);
  const RunRecord run = Play(Of({Program("host", 10), guest}), "proportional-share");
  for (const FrameRecord& frame : run.tenants[1].frames) {
    EXPECT_GE(frame.end_ns, 5'000'000'000);
    EXPECT_LE(frame.end_ns, 10'000'000'000);
  }
  EXPECT_GT(run.tenants[1].frames.size(), 200u);
}

TEST(Simulation, AProgramThatLeavesWhileItWaitsIsNotStarved) {
  Tenant guest = Program("guest", 20);
  guest.settings.cap = Share::FromFraction(0.01);  // it waits most of the time, also at its end
  guest.end = milliseconds(4100);
  EXPECT_TRUE(Play(Of({Program("host", 5), guest}), "none").violations.empty());
}

TEST(Simulation, ADaemonThatCrashesLeavesProgramsUnthrottledAndTakesThemBack) {
  Tenant tenant = Program("a", 2);
  tenant.settings.cap = Share::FromFraction(0.2);
  Scenario scenario = Of({tenant});
  scenario.faults = {{.kind = FaultKind::kDaemonCrash, .at = seconds(8), .until = seconds(12)}};
  const RunRecord run = Play(scenario, "none");
  const auto use = [&](std::size_t s) { return static_cast<double>(run.tenants[0].gpu_ns_by_s[s]) * 1e-9; };
  EXPECT_NEAR(use(6), 0.2, 0.02);
  EXPECT_GT(use(10), 0.9);
  EXPECT_NEAR(use(15), 0.2, 0.02);
}

TEST(Simulation, AKilledProcessComesBack) {
  Scenario scenario = Of({Program("a", 5), Program("b", 5)});
  scenario.faults = {{.kind = FaultKind::kProcessKill, .at = seconds(5), .until = seconds(6), .tenant = "a"}};
  const RunRecord run = Play(scenario, "proportional-share");
  EXPECT_LT(run.tenants[0].gpu_ns_by_s[5], 50'000'000);
  EXPECT_GT(run.tenants[0].gpu_ns_by_s[8], 400'000'000);
}

TEST(Simulation, ADeviceThatStallsDelaysAndNothingMore) {
  Scenario scenario = Of({Program("a", 5), Program("b", 5)});
  scenario.faults = {{.kind = FaultKind::kDeviceStall, .at = seconds(5), .until = seconds(7)}};
  const RunRecord run = Play(scenario, "proportional-share");
  EXPECT_EQ(run.tenants[0].gpu_ns_by_s[6], 0);
  EXPECT_NEAR(static_cast<double>(run.tenants[0].gpu_ns_by_s[10]) * 1e-9, 0.5, 0.05);
}

// Seed 2035 of the swarm.
TEST(ProportionalShare, WhoUsedWhatAHeavyOneLeftIsNotStarvedWhenAnotherComes) {
  Tenant heavy = Program("heavy", 7.1, 2.9, 0.2), light = Program("light", 8.2, 3.6),
         guest = Program("guest", 1.2, 6.3);
  heavy.settings.weight = 485, light.settings.weight = 13, guest.settings.weight = 87;
  heavy.own_limit_fps = 60;
  guest.start = seconds(5);
  const Scenario scenario = Of({heavy, light, guest});
  const sim::Run run{.label = "run", .policy = "proportional-share", .params = {{"lag_ms", 400.0}}};
  Simulation simulation(scenario, run, {});
  simulation.RunUntil(scenario.span);
  const std::vector<std::int64_t> use = simulation.Take().tenants[1].gpu_ns_by_s;
  for (std::size_t s = 6; s + 3 < 20; s += 3) EXPECT_GT(use[s] + use[s + 1] + use[s + 2], 16'000'000) << s << " s";
}

TEST(Simulation, TheSameSeedGivesTheSameRunAndAnotherAnother) {
  const Scenario scenario = Of({Program("a", 3, 1, 0.5), Program("b", 7, 0, 0.5)}, seconds(5));
  for (const core::PolicyEntry& policy : core::PolicyTable()) {
    const RunRecord first = Play(scenario, std::string(policy.name), 7);
    const RunRecord second = Play(scenario, std::string(policy.name), 7);
    EXPECT_EQ(first.digest, second.digest) << policy.name;
    EXPECT_EQ(first.events, second.events) << policy.name;
    EXPECT_EQ(first.tenants[0].gpu_ns, second.tenants[0].gpu_ns) << policy.name;
  }
  EXPECT_NE(Play(scenario, "proportional-share", 7).digest, Play(scenario, "proportional-share", 8).digest);
}

TEST(Simulation, AnIdleDeviceCostsNoEvents) {
  Tenant tenant = Program("a", 2);
  tenant.end = seconds(1);
  const RunRecord brief = Play(Of({tenant}, seconds(10)), "proportional-share");
  const RunRecord longer = Play(Of({tenant}, seconds(1000)), "proportional-share");
  EXPECT_LT(longer.looks, brief.looks + 5);
}

TEST(Simulation, TheDigestIsOfAllThatIsPublished) {
  Tenant tenant = Program("a", 3, 2);
  tenant.settings.fps = 60;
  const Scenario scenario = Of({tenant}, seconds(1));
  sim::Run run{.label = "sla-aware", .policy = "sla-aware"};
  run.params = *core::CheckParams(**core::FindPolicy(run.policy), {});
  const auto digest = [&](const std::function<void(engine::Publish&)>& change) {
    const auto tampered = [&](Instant, engine::Actions& actions) { std::ranges::for_each(actions.publish, change); };
    Simulation simulation(scenario, run, {.tamper = {.actions = tampered}});
    simulation.RunUntil(scenario.span);
    return simulation.Take().digest;
  };
  const std::uint64_t as_it_is = digest([](engine::Publish&) {});
  // The digest covers every field, even where the modelled program runs the same.
  EXPECT_NE(as_it_is, digest([](engine::Publish& publish) { publish.sync = proto::FrameSync::kFence; }));
  EXPECT_NE(as_it_is, digest([](engine::Publish& publish) { publish.cap = Share::FromFraction(0.9); }));
  EXPECT_NE(as_it_is, digest([](engine::Publish& publish) { publish.memory.limit += 1; }));
}

Tenant Tasks(const std::string& name, double gpu_ms) {
  Tenant tenant = Program(name, gpu_ms, 0, 0);
  tenant.compute = true;
  tenant.present = Duration{0};
  return tenant;
}

TEST(ComputeTasks, RunBackToBack) {
  const RunRecord run = Play(Of({Tasks("a", 40)}), "none");
  EXPECT_NEAR(Get(run, "fps", "a"), 25, 0.1);
  EXPECT_NEAR(Get(run, "latency_ms", "a"), 40, 0.01);
  EXPECT_NEAR(Get(run, "gpu_use", "a"), 1, 0.01);
}

TEST(ComputeTasks, KeepTheirPeriodAndDoNotCatchUp) {
  Tenant tenant = Tasks("a", 40);
  tenant.period = milliseconds(100);
  EXPECT_NEAR(Get(Play(Of({tenant}), "none"), "fps", "a"), 10, 0.1);
  Scenario stalled = Of({tenant});
  stalled.faults = {{.kind = FaultKind::kDeviceStall, .at = seconds(5), .until = seconds(10)}};
  const RunRecord run = Play(stalled, "none");
  const auto after =
      Measure(std::span(&run, 1), {.metric = "fps", .run = "none", .tenant = "a", .from_s = 11, .to_s = 20});
  EXPECT_NEAR(*after, 10, 0.2);
}

TEST(ComputeTasks, ALaunchIsNotPreempted) {
  // A frame of 1 ms waits for the end of a launch of 60 ms; between slices of 4 ms it runs earlier.
  Tenant frames = Program("frames", 1, 5, 0);
  frames.finishes = true;
  Tenant tasks = Tasks("tasks", 60);
  const double whole = Get(Play(Of({frames, tasks}), "none"), "max_ms", "frames");
  tasks.slice = milliseconds(4);
  const double sliced = Get(Play(Of({frames, tasks}), "none"), "max_ms", "frames");
  EXPECT_GT(whole, 55);
  EXPECT_LT(sliced, 5 + 4 + 1 + 1);
}

TEST(ComputeTasks, ATaskIsTheSumOfItsSlices) {
  Tenant tasks = Tasks("a", 50);
  tasks.slice = milliseconds(8);  // six slices, and one of 2 ms
  const RunRecord run = Play(Of({tasks}), "proportional-share");
  for (const FrameRecord& task : run.tenants[0].frames) EXPECT_EQ(task.gpu_ns, 50'000'000);
  EXPECT_NEAR(Get(run, "fps", "a"), 20, 0.1);
}

TEST(ComputeTasks, ShareByWeightWithFrames) {
  Tenant frames = Program("frames", 4), tasks = Tasks("tasks", 30);
  frames.settings.weight = 70, tasks.settings.weight = 30;
  tasks.slice = milliseconds(5);
  const RunRecord run = Play(Of({frames, tasks}, seconds(30)), "proportional-share");
  EXPECT_NEAR(Get(run, "gpu_share", "frames"), 0.7, 0.01);
}

TEST(ComputeTasks, HaveNoPace) {
  const RunRecord run = Play(Of({Tasks("a", 2)}), "sla-aware");
  EXPECT_GT(Get(run, "fps", "a"), 400);
}

TEST(ComputeTasks, AreCheckedUnderEveryPolicy) {
  Tenant frames = Program("frames", 4, 3), tasks = Tasks("tasks", 24), periodic = Tasks("periodic", 20);
  frames.settings.weight = 60, tasks.settings.weight = 30, periodic.settings.weight = 10;
  tasks.slice = milliseconds(4), periodic.period = milliseconds(200);
  for (const core::PolicyEntry& policy : core::PolicyTable()) {
    const Scenario scenario = Of({frames, tasks, periodic});
    sim::Run run{.label = std::string(policy.name), .policy = std::string(policy.name)};
    run.params = *core::CheckParams(policy, {});
    Simulation simulation(scenario, run, {});
    simulation.RunUntil(scenario.span);
    const RunRecord record = simulation.Take();
    EXPECT_TRUE(record.violations.empty());
    EXPECT_EQ(CheckRun(scenario, run, record), std::vector<std::string>{}) << policy.name;
  }
}

}  // namespace
}  // namespace weir::sim
