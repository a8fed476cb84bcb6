// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster_simulation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/cluster_metrics.h"

namespace weir::sim {
namespace {

/// Two kernels. Each one needs half a second on the host and then fills one resource of the device for a second.
Scenario TwoResources(std::uint32_t devices) {
  Scenario scenario;
  scenario.name = "two-resources";
  scenario.span = seconds(1'000);
  ClusterWorld& world = scenario.cluster.emplace();
  world.devices = {.count = devices,
                   .memory = MiB(1'000),
                   .runs_max = 4,
                   .threads = 1'000,
                   .blocks = 1'000,
                   .bytes_per_s = 1e9,
                   .context = milliseconds(250)};
  ClusterKernel kernel{.name = "traffic",
                       .memory = MiB(200),
                       .host = milliseconds(500),
                       .kernel = seconds(1),
                       .processing = 0,
                       .bytes_per_s = 1e9};
  world.kernels.push_back(kernel);
  kernel.name = "threads";
  kernel.processing = 1;
  kernel.bytes_per_s = 0;
  world.kernels.push_back(kernel);
  return scenario;
}

Run Named(const ClusterRun& run) { return {.label = "run", .cluster = run}; }

RunRecord PlayCluster(const Scenario& scenario, const ClusterRun& run, std::uint64_t seed = 1) {
  const Run named = Named(run);
  ClusterSimulation simulation(scenario, named, seed);
  simulation.RunUntil(scenario.span);
  RunRecord record = simulation.Take();
  EXPECT_TRUE(record.violations.empty()) << record.violations.front();
  return record;
}

double MakespanOf(const Scenario& scenario, const ClusterRun& run) {
  const RunRecord record = PlayCluster(scenario, run);
  return Makespan({.run = &record});
}

TEST(ClusterSimulation, SerialApplicationsTakeTheirTimesOneAfterAnother) {
  const Scenario scenario = TwoResources(1);
  EXPECT_NEAR(MakespanOf(scenario, {.runs = 4}), 6, 1e-6);
  EXPECT_NEAR(MakespanOf(scenario, {.context_each = true, .runs = 4}), 7, 1e-6);
}

TEST(ClusterSimulation, KernelsThatUseDifferentResourcesRunTogetherAsFastAsAlone) {
  const Scenario scenario = TwoResources(1);
  EXPECT_NEAR(MakespanOf(scenario, {.placement = "spread", .runs = 2}), 1.5, 1e-6);
  EXPECT_NEAR(MakespanOf(scenario, {.placement = "spread", .kernels = {"traffic"}, .runs = 2}), 2.5, 1e-6);
}

TEST(ClusterSimulation, InterferenceAwareKeepsApartWhatInterferes) {
  const Scenario scenario = TwoResources(2);
  ClusterRun run{.placement = "round-robin", .runs = 4};
  // In turn: the two runs of one kernel on one device, those of the other kernel on the other device.
  EXPECT_NEAR(MakespanOf(scenario, run), 2.5, 1e-6);
  run.placement = "interference-aware";
  EXPECT_NEAR(MakespanOf(scenario, run), 1.5, 1e-6);
}

TEST(ClusterSimulation, RunsWaitWhereDevicesHaveNoRoom) {
  Scenario scenario = TwoResources(1);
  scenario.cluster->kernels[0].memory = MiB(600);
  const RunRecord record =
      PlayCluster(scenario, {.placement = "interference-aware", .kernels = {"traffic"}, .runs = 3});
  EXPECT_NEAR(Makespan({.run = &record}), 4.5, 1e-6);
  EXPECT_EQ(record.tenants[0].kernel_runs.size(), 3U);
}

TEST(ClusterSimulation, WhatFitsNowhereIsSaidToBeAViolation) {
  Scenario scenario = TwoResources(1);
  scenario.cluster->kernels[0].memory = MiB(1'001);
  const auto run = Named({.placement = "spread", .runs = 1});
  ClusterSimulation simulation(scenario, run, 1);
  simulation.RunUntil(scenario.span);
  const RunRecord record = simulation.Take();
  ASSERT_FALSE(record.violations.empty());
  EXPECT_EQ(record.violations.front(), "traffic is refused: no device has that much memory");
}

TEST(ClusterSimulation, LearnsFromItsRunsWhatAProfileWouldHaveSaid) {
  const Scenario scenario = TwoResources(1);
  const auto profiled = ProfileAll(scenario.cluster->kernels, *scenario.cluster, {});
  ASSERT_TRUE(profiled.has_value());
  // Two runs of the same kernel halve each other's speed, runs of different kernels do not.
  EXPECT_NEAR(profiled->weights()[1], 1, 0.02);
  EXPECT_NEAR(profiled->weights()[2], 1, 0.02);
  const auto run = Named({.placement = "interference-aware",
                          .params = {{"prior_weight", 0.0}},
                          .runs = 200,
                          .gap = milliseconds(400),
                          .shuffle = 1,
                          .profiled = false,
                          .learns = true});
  ClusterSimulation simulation(scenario, run, 1);
  EXPECT_EQ(simulation.placement().model()->weights()[1], 0);
  simulation.RunUntil(scenario.span);
  const core::InterferenceModel& learned = *simulation.placement().model();
  const RunRecord record = simulation.Take();
  EXPECT_EQ(RunsDone({.run = &record}), 200);
  // Not exactly: the model learns from a run's mean neighbours, which came and went.
  EXPECT_NEAR(learned.weights()[1], 1, 0.15);
  EXPECT_NEAR(learned.weights()[2], 1, 0.15);
}

/// Two measured kernels: the short one is slowed much by the long one, and slows the long one hardly at all.
Scenario MeasuredScenario(std::uint32_t devices) {
  Scenario scenario = TwoResources(devices);
  ClusterWorld& world = *scenario.cluster;
  for (ClusterKernel& kernel : world.kernels) kernel.host = Duration{0};
  world.kernels[0].loads = core::Loads{0, 100, 500, 4};
  world.kernels[1].loads = core::Loads{0, 0, 1'000, 8};
  world.kernels[1].kernel = seconds(4);
  world.pairs = {{0, 0, 2, 2}, {0, 1, 3, 4.4}, {1, 1, 8, 8}};
  return scenario;
}

TEST(ClusterSimulation, KernelsThatWereMeasuredTogetherTakeWhatWasMeasured) {
  const Scenario scenario = MeasuredScenario(1);
  ClusterRun run{.placement = "spread", .kernels = {"traffic", "threads"}, .runs = 2};
  // The short one ends after 3 s; then 4 - 3 / 1.1 s of the long one are left.
  EXPECT_NEAR(MakespanOf(scenario, run), 3 + 4 - 3 / 1.1, 1e-6);
  run.kernels = {"traffic"};
  EXPECT_NEAR(MakespanOf(scenario, run), 2, 1e-6);
  run.runs = 3;  // each run adds its whole time to both others
  EXPECT_NEAR(MakespanOf(scenario, run), 3, 1e-6);
  run.placement = "serial";
  EXPECT_NEAR(MakespanOf(scenario, run), 3, 1e-6);
}

TEST(ClusterSimulation, AProfileOfMeasuredKernelsIsTheLineThroughTheirPairs) {
  const Scenario scenario = MeasuredScenario(1);
  const ClusterWorld& world = *scenario.cluster;
  const auto profiled = ProfileAll(world.kernels, world, {});
  ASSERT_TRUE(profiled.has_value());
  const core::RunNeed shorter{.memory = MiB(200), .loads = {0, 100, 500, 4}, .alone_ms = 1'000};
  const core::RunNeed longer{.memory = MiB(200), .loads = {0, 0, 1'000, 8}, .alone_ms = 4'000};
  const auto fitted =
      core::Fit(std::array{core::SoloRun{"traffic", shorter, 1}, core::SoloRun{"threads", longer, 4}},
                std::array{core::PairRun{"traffic", "traffic", 2, 2}, core::PairRun{"traffic", "threads", 3, 4.4},
                           core::PairRun{"threads", "threads", 8, 8}},
                CapacityFor(world.devices));
  ASSERT_TRUE(fitted.has_value());
  for (std::size_t i = 0; i < core::InterferenceModel::kWeights; ++i)
    EXPECT_NEAR(profiled->weights()[i], fitted->weights()[i], 1e-9) << i;
}

TEST(ClusterSimulation, TheSameSeedGivesTheSameRun) {
  const Scenario scenario = TwoResources(3);
  const ClusterRun run{.placement = "interference-aware", .runs = 40, .shuffle = 2};
  EXPECT_EQ(PlayCluster(scenario, run, 5).digest, PlayCluster(scenario, run, 5).digest);
  EXPECT_NE(PlayCluster(scenario, run, 5).digest, PlayCluster(scenario, run, 6).digest);
}

}  // namespace
}  // namespace weir::sim
