// SPDX-License-Identifier: Apache-2.0
// Reads the parts of a scenario file about tasks on several nodes: [[node]], [network], [[task]], and the keys of runs
// and sweeps about them. Templates over the file's reader (ScenarioReader), so that this header needs no TOML library.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario.h"

namespace weir::cli {

inline constexpr std::uint64_t kMatrixSizeMax = 100'000;
inline constexpr double kMatrixSideStep = sim::kGroupSide;

template <typename Reader>
std::uint64_t CheckMatrixSize(Reader& reader, double size) {
  if (size >= kMatrixSideStep && size <= static_cast<double>(kMatrixSizeMax) &&
      size == kMatrixSideStep * static_cast<double>(static_cast<std::uint64_t>(size / kMatrixSideStep)))
    return static_cast<std::uint64_t>(size);
  reader.Complain(fmt::format("a size is a multiple of {} up to {}, not {:g}", sim::kGroupSide, kMatrixSizeMax, size));
  return sim::kGroupSide;
}

template <typename Reader>
void ReadMigrationNode(Reader& reader, sim::MigrationWorld& world) {
  sim::MigrationNode& node = world.nodes.emplace_back();
  const auto rate = [&reader](const char* key, double& bytes_per_s, double unit, double min) {
    double number = bytes_per_s / unit;
    reader.Number(key, number, min, 1e6);
    bytes_per_s = number * unit;
  };
  reader.Text("name", node.name);
  reader.Memory("memory_mb", node.memory);
  rate("in_gb_s", node.in_bytes_per_s, 1e9, 0.001);
  rate("out_gb_s", node.out_bytes_per_s, 1e9, 0.001);
  reader.Span("in_setup_ms", node.in_setup, 1e-3, 60);
  reader.Span("kernel_ms", node.kernel, 1e-3, 3600);
  rate("gflops", node.flops, 1e9, 0);
  rate("client_mb_s", node.client_bytes_per_s, 1e6, 0);
  reader.Number("client_spread", node.client_spread, 0, 0.5);
  reader.Number("slow", node.slow, 0, 10'000);
  reader.Span("clock_ahead_ms", node.clock_ahead, 1e-3, 1e6);
  double clock_ppm = 0;
  reader.Number("clock_ppm", clock_ppm, -500'000, 500'000);
  node.clock_ppm = static_cast<std::int64_t>(clock_ppm);
  if (node.name.empty()) reader.Complain("a node has no name");
  if (node.memory.count == 0) reader.Complain(fmt::format("node '{}' needs a memory_mb", node.name));
}

template <typename Reader>
void ReadMigrationTask(Reader& reader, sim::MigrationWorld& world) {
  sim::MigrationTask& task = world.tasks.emplace_back();
  double size = 0;
  reader.Text("name", task.name);
  reader.Whole("node", task.node, 0, static_cast<double>(std::max<std::size_t>(world.nodes.size(), 1)) - 1);
  reader.Span("start", task.start, 1);
  reader.Number("size", size, kMatrixSideStep, static_cast<double>(kMatrixSizeMax));
  reader.Whole("copies", task.copies, 1, 1000);
  reader.Flag("managed", task.managed);
  reader.Span("hold", task.hold, 1);
  task.size = CheckMatrixSize(reader, size);
  if (task.name.empty()) reader.Complain("a task has no name");
  for (const sim::MigrationTask& other : world.tasks)
    if (&other != &task && other.name == task.name)
      reader.Complain(fmt::format("two tasks are called '{}'", task.name));
}

template <typename Reader>
void ReadMigrationParting(Reader& reader, sim::MigrationWorld& world) {
  sim::MigrationParting& parting = world.partings.emplace_back();
  const double last = static_cast<double>(std::max<std::size_t>(world.nodes.size(), 1)) - 1;
  parting.b = 1;
  reader.Whole("a", parting.a, 0, last);
  reader.Whole("b", parting.b, 0, last);
  reader.Span("at", parting.at, 1);
  reader.Span("until", parting.until, 1);
  if (parting.a == parting.b) reader.Complain("a parting needs two nodes, a and b");
  if (parting.until <= parting.at) reader.Complain("a parting ends after it begins: until > at");
}

/// Reads the nodes and tasks, if the file has tasks.
template <typename Reader>
void ReadMigrationWorld(Reader& reader, std::optional<sim::MigrationWorld>& world) {
  if (!reader.Has("task")) return;
  world.emplace();
  reader.Each("node", [&](Reader& one) { ReadMigrationNode(one, *world); });
  reader.Sub("network", [&](Reader& one) {
    double mb_s = world->network.bytes_per_s * 1e-6;
    one.Number("mb_s", mb_s, 0.001, 1e6);
    world->network.bytes_per_s = mb_s * 1e6;
    one.Span("latency_us", world->network.latency, 1e-6, 10);
    one.Span("jitter_us", world->network.jitter, 1e-6, 10);
    one.Number("loss", world->network.loss, 0, 1);
    one.Span("stretch_us", world->stretch, 1e-6, 1);
    one.Span("decide_us", world->decide, 1e-6, 1);
  });
  reader.Each("parting", [&](Reader& one) { ReadMigrationParting(one, *world); });
  reader.Each("task", [&](Reader& one) { ReadMigrationTask(one, *world); });
  if (world->nodes.empty()) reader.Complain("tasks need a [[node]]");
}

/// Reads "partition" and the other keys of a run about tasks.
template <typename Reader>
void ReadMigrationRun(Reader& reader, const sim::MigrationWorld& world, sim::MigrationRun& run) {
  static constexpr std::array<std::pair<std::string_view, sim::Shortage>, 3> kOthers{
      {{"none", sim::Shortage::kIgnore}, {"wait", sim::Shortage::kWait}, {"migrate", sim::Shortage::kMigrate}}};
  std::string name = "none";
  reader.Text("partition", name);
  run.shortage = sim::Shortage::kPlan;
  for (const auto& [other, shortage] : kOthers)
    if (other == name) run.shortage = shortage;
  if (run.shortage == sim::Shortage::kPlan) {
    const auto mode = core::PartitionModeNamed(name);
    if (mode)
      run.mode = *mode;
    else
      reader.Complain(fmt::format("{}, and without the planner: none, wait, migrate", mode.error().message));
  }
  reader.Number("min_share", run.params.min_share, 0, 1);
  reader.Number("always_share", run.params.always_share, 0, 1);
  double network_mb_s = 0;
  reader.Number("network_mb_s", network_mb_s, 0, 1e6);
  run.network_bytes_per_s = network_mb_s * 1e6;
  const auto each = [&](const char* key, auto set) {
    reader.Sub(key, [&](Reader& all) {
      for (const auto& [task, value] : all.table()) {
        const std::string of(task.str());
        double number = 0;
        all.Number(of.c_str(), number, 0, static_cast<double>(kMatrixSizeMax));
        if (std::ranges::find(world.tasks, of, &sim::MigrationTask::name) == world.tasks.end())
          all.Complain(fmt::format("no task '{}'", of));
        set(all, of, number);
      }
    });
  };
  each("sizes",
       [&](Reader& all, const std::string& of, double number) { run.sizes[of] = CheckMatrixSize(all, number); });
  each("copies", [&](Reader&, const std::string& of, double number) { run.copies[of] = static_cast<int>(number); });
}

/// Adds a run for each size of one task, called LABEL-SIZE.
template <typename Reader, typename Add>
void ReadMigrationSweep(Reader& reader, const sim::MigrationWorld& world, sim::Run run, const std::string& label,
                        Add add) {
  std::string task;
  std::vector<double> sizes;
  ReadMigrationRun(reader, world, run.migration);
  reader.Text("task", task);
  reader.Numbers("size", sizes);
  if (std::ranges::find(world.tasks, task, &sim::MigrationTask::name) == world.tasks.end())
    reader.Complain(fmt::format("no task '{}'", task));
  if (sizes.empty()) reader.Complain("a sweep of tasks needs 'size', a list of numbers");
  for (const double size : sizes) {
    sim::Run one = run;
    one.label = fmt::format("{}-{:g}", label, size);
    one.migration.sizes[task] = CheckMatrixSize(reader, size);
    add(std::move(one));
  }
}

}  // namespace weir::cli
