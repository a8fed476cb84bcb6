// SPDX-License-Identifier: Apache-2.0
#include "sim/migration_simulation.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

/// Two nodes with 2 GB each; a task of size 8,000 needs 768 MB.
Scenario TwoNodes() {
  Scenario scenario;
  scenario.name = "two-nodes";
  scenario.span = seconds(1'000);
  MigrationWorld& world = scenario.migration.emplace();
  MigrationNode node{.memory = Bytes{2'000'000'000},
                     .in_bytes_per_s = 1e9,
                     .out_bytes_per_s = 1e9,
                     .kernel = milliseconds(100),
                     .client_bytes_per_s = 100e6,
                     .slow = 50};
  for (const char* name : {"source", "destination"}) {
    node.name = name;
    world.nodes.push_back(node);
  }
  world.network.bytes_per_s = 100e6;
  world.tasks.push_back({.name = "first", .size = 8'000, .copies = 2});
  world.tasks.push_back({.name = "last", .start = seconds(1), .size = 8'000});
  return scenario;
}

RunRecord PlayMigration(const Scenario& scenario, const MigrationRun& run, std::uint64_t seed = 1) {
  MigrationSimulation simulation(scenario, Run{.label = "run", .migration = run}, seed);
  simulation.RunUntil(scenario.span);
  return simulation.Take();
}

const TaskRecord& TaskOf(const RunRecord& run, std::string_view name) {
  for (const TenantRecord& tenant : run.tenants)
    if (tenant.name == name && !tenant.tasks.empty()) return tenant.tasks.front();
  static const TaskRecord kNoTask{};
  ADD_FAILURE() << "no task " << name;
  return kNoTask;
}

double SpentS(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

TEST(MigrationSimulation, ATaskAloneTakesWhatItsPhasesTake) {
  Scenario scenario = TwoNodes();
  scenario.migration->tasks = {{.name = "only", .size = 8'000}};
  const RunRecord run = PlayMigration(scenario, {});
  const TaskRecord& task = TaskOf(run, "only");
  EXPECT_NEAR(SpentS(task.transfer_ns), 5.12, 1e-3);  // 512 MB
  EXPECT_NEAR(SpentS(task.input_ns), 0.512, 1e-3);
  EXPECT_NEAR(SpentS(task.kernel_ns), 0.1, 1e-6);
  EXPECT_NEAR(SpentS(task.output_ns), 0.256, 1e-3);
  EXPECT_NEAR(SpentS(task.return_ns), 2.56, 1e-3);
  EXPECT_NEAR(SpentS(task.end_ns), 8.548, 2e-3);
}

TEST(MigrationSimulation, CopiesAreSlowForAllWhileMoreIsAllocatedThanThereIs) {
  const Scenario scenario = TwoNodes();
  const RunRecord two = PlayMigration(scenario, {.copies = {{"last", 0}}});
  const RunRecord three = PlayMigration(scenario, {});
  // 2,304 of 2,000 MB are allocated, so copies take 1 + 50 · 0.152 times as long.
  EXPECT_GT(TaskOf(three, "first-1").input_ns, 8 * TaskOf(two, "first-1").input_ns);
}

TEST(MigrationSimulation, EveryWayKeepsToTheMemoryAndEnds) {
  const Scenario scenario = TwoNodes();
  const auto kind_under = [&](const MigrationRun& run) {
    const RunRecord record = PlayMigration(scenario, run);
    EXPECT_TRUE(record.violations.empty()) << record.violations.front();
    return TaskOf(record, "last").kind;
  };
  using enum core::PlanKind;
  EXPECT_EQ(kind_under({.shortage = Shortage::kWait}), kHere);
  EXPECT_EQ(kind_under({.shortage = Shortage::kMigrate}), kMigrate);
  EXPECT_EQ(kind_under({.shortage = Shortage::kPlan, .mode = core::PartitionMode::kStay}), kPieces);
  EXPECT_EQ(kind_under({.shortage = Shortage::kPlan, .mode = core::PartitionMode::kAlways}), kSplit);
  EXPECT_EQ(kind_under({.shortage = Shortage::kPlan, .mode = core::PartitionMode::kPaper}), kSplit);
}

TEST(MigrationSimulation, WaitsUntilSomebodyLeavesWhereNoNodeHasRoom) {
  Scenario scenario = TwoNodes();
  scenario.migration->nodes[1].memory = MiB(1);
  const RunRecord run = PlayMigration(scenario, {.shortage = Shortage::kMigrate});
  const TaskRecord& last = TaskOf(run, "last");
  EXPECT_EQ(last.kind, core::PlanKind::kHere);
  EXPECT_GT(last.waited_ns, 0);
  EXPECT_NEAR(SpentS(last.asked_ns), 0.02, 1e-9);  // no node answered
}

TEST(MigrationSimulation, TwoThatAskAtOnceAreNotPromisedTheSameRoom) {
  Scenario scenario = TwoNodes();
  scenario.migration->nodes[0].memory = MiB(1);
  scenario.migration->nodes[1].memory = MiB(1'000);  // enough for one task
  scenario.migration->tasks = {{.name = "first", .size = 8'000, .copies = 2}};
  scenario.migration->nodes.push_back(scenario.migration->nodes[1]);
  scenario.migration->nodes.back().name = "third";
  const RunRecord run = PlayMigration(scenario, {.shortage = Shortage::kMigrate});
  EXPECT_TRUE(run.violations.empty());
  // The two tasks get different nodes, although both nodes have the same number of threads.
  EXPECT_EQ(TaskOf(run, "first-1").kind, core::PlanKind::kMigrate);
  EXPECT_EQ(TaskOf(run, "first-2").kind, core::PlanKind::kMigrate);
}

TEST(MigrationSimulation, TheSameSeedGivesTheSameRun) {
  Scenario scenario = TwoNodes();
  scenario.migration->nodes[0].client_spread = 0.02;
  const MigrationRun run{.shortage = Shortage::kPlan};
  EXPECT_EQ(PlayMigration(scenario, run, 5).digest, PlayMigration(scenario, run, 5).digest);
  EXPECT_NE(PlayMigration(scenario, run, 5).digest, PlayMigration(scenario, run, 6).digest);
}

}  // namespace
}  // namespace weir::sim
