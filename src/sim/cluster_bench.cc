// SPDX-License-Identifier: Apache-2.0
// Simulated clusters: events per second of real time, while runs are placed, launched and finished in virtual time.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "sim/cluster_simulation.h"

namespace weir::sim {
namespace {

/// Ten runs of four kinds of kernels for each device, most of them at once: about two on a device at a time.
void BM_Cluster(benchmark::State& state, const char* placement) {
  const auto devices = static_cast<std::uint32_t>(state.range(0));
  Scenario scenario;
  scenario.span = seconds(10'000);
  ClusterWorld& world = scenario.cluster.emplace();
  world.devices = {.count = devices,
                   .memory = MiB(80 << 10),
                   .threads = 221'184,
                   .blocks = 3'456,
                   .bytes_per_s = 2e12,
                   .cache = MiB(40)};
  for (int i = 0; i < 4; ++i)
    world.kernels.push_back({.name = "k" + std::to_string(i),
                             .memory = MiB(static_cast<std::uint64_t>(4'000 + 8'000 * i)),
                             .host = milliseconds(20),
                             .blocks = 2'000,
                             .kernel = milliseconds(400 + 300 * i),
                             .processing = 0.2 * (i + 1),
                             .bytes_per_s = 4e11 * (4 - i)});
  Run run{.label = placement};
  run.cluster = {.placement = placement, .runs = devices * 10, .gap = Duration{1'000'000'000 / devices / 2}};
  std::uint64_t events = 0;
  for (auto _ : state) {
    ClusterSimulation simulation(scenario, run, 1, false);
    simulation.RunUntil(scenario.span);
    events += simulation.events();
    const RunRecord record = simulation.Take();
    if (!record.violations.empty()) return state.SkipWithError(record.violations.front().c_str());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}
BENCHMARK_CAPTURE(BM_Cluster, interference_aware, "interference-aware")
    ->Arg(1'000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Cluster, long, "interference-aware")  // left out of the smoke test (cmake/WeirModule.cmake)
    ->Arg(100'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Cluster, spread, "spread")->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weir::sim
