// SPDX-License-Identifier: Apache-2.0
// Events per second of real time, and how the cost of an event grows with the number of tenants.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <memory>

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

/// One second of virtual time.
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

/// One minute of virtual time with one tenant per device, at `state.range(1)` frames/s each: real time, and the peak
/// memory of the process. At 0 frames/s no program starts.
void BM_Minute(benchmark::State& state, const char* policy) {
  const auto devices = static_cast<std::size_t>(state.range(0));
  Scenario scenario = Cluster(devices, devices, static_cast<double>(state.range(1)));
  scenario.span = seconds(60);
  if (state.range(1) == 0)
    for (Tenant& tenant : scenario.tenants) tenant.start = seconds(61);
  Run run{.label = policy, .policy = policy};
  run.params = *core::CheckParams(**core::FindPolicy(policy), {});
  std::uint64_t events = 0;
  for (auto _ : state) {
    Simulation simulation(scenario, run, {.seed = 1, .keep_frames = false});
    simulation.RunUntil(scenario.span);
    events += simulation.events();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}
BENCHMARK_CAPTURE(BM_Minute, sla_aware, "sla-aware")->Args({1'000, 1})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Minute, long, "sla-aware")  // left out of the smoke test (cmake/WeirModule.cmake)
    ->Args({100'000, 0})
    ->Args({100'000, 1})
    ->Unit(benchmark::kMillisecond);

/// The cost of an event by the number of tenants, each on a device of its own: `state.range(1)` ms at 60 frames/s, from
/// 200 ms on, when all programs have started.
void BM_Growth(benchmark::State& state, const char* policy) {
  const auto tenants = static_cast<std::size_t>(state.range(0));
  Scenario scenario = Cluster(tenants, tenants, 60);
  for (std::size_t i = 0; i < tenants; ++i)  // in an order that gives the heap work
    scenario.tenants[i].start = microseconds(static_cast<std::int64_t>(i * 7'919 % 16'667));
  Run run{.label = policy, .policy = policy};
  run.params = *core::CheckParams(**core::FindPolicy(policy), {});
  constexpr Duration kBegun = milliseconds(200);
  std::uint64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto simulation = std::make_unique<Simulation>(scenario, run, RunOptions{.seed = 1, .keep_frames = false});
    simulation->RunUntil(kBegun);
    const std::uint64_t before = simulation->events();
    state.ResumeTiming();
    simulation->RunUntil(kBegun + milliseconds(state.range(1)));
    state.PauseTiming();
    events += simulation->events() - before;
    simulation.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
  state.counters["events"] = static_cast<double>(events) / static_cast<double>(state.iterations());
}
BENCHMARK_CAPTURE(BM_Growth, sla_aware, "sla-aware")->ArgsProduct({{10, 100, 1'000}, {200, 1'000}});
BENCHMARK_CAPTURE(BM_Growth, long, "sla-aware")->ArgsProduct({{10'000, 100'000}, {200, 1'000}});

}  // namespace
}  // namespace weir::sim
