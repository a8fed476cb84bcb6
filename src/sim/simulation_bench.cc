// SPDX-License-Identifier: Apache-2.0
// Events a second, and how the cost of an event grows with the number of tenants.
#include <benchmark/benchmark.h>

#include "sim/simulation.h"

namespace weir::sim {
namespace {

Scenario Cluster(std::size_t devices, std::size_t tenants, double fps) {
  Scenario scenario;
  scenario.span = seconds(1);
  scenario.devices.assign(devices, Device{});
  for (std::size_t i = 0; i < tenants; ++i) {
    Tenant tenant;
    tenant.name = "t" + std::to_string(i);
    tenant.device = static_cast<std::uint32_t>(i % devices);
    tenant.settings.fps = fps;
    tenant.own_limit_fps = fps;
    tenant.scenes = {{.cpu = milliseconds(1), .gpu = microseconds(600), .jitter = 0.3}};
    scenario.tenants.push_back(std::move(tenant));
  }
  return scenario;
}

/// A second of virtual time.
void BM_Simulation(benchmark::State& state, const char* policy) {
  const auto devices = static_cast<std::size_t>(state.range(0));
  const auto tenants = static_cast<std::size_t>(state.range(1));
  const Scenario scenario = Cluster(devices, tenants, static_cast<double>(state.range(2)));
  Run run{.label = policy, .policy = policy};
  run.params = *core::CheckParams(**core::FindPolicy(policy), {});
  std::uint64_t events = 0;
  for (auto _ : state) {
    Simulation simulation(scenario, run, {.seed = 1, .keep_frames = false});
    simulation.RunUntil(scenario.span);
    events += simulation.Take().events;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
}
BENCHMARK_CAPTURE(BM_Simulation, sla_aware, "sla-aware")
    ->Args({1, 10, 60})
    ->Args({8, 100, 60})
    ->Args({64, 1'000, 60})
    ->Args({1'000, 10'000, 60})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Simulation, none, "none")->Args({64, 1'000, 60})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Simulation, proportional_share, "proportional-share")
    ->Args({1, 10, 60})
    ->Args({64, 1'000, 60})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weir::sim
