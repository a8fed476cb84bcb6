// SPDX-License-Identifier: Apache-2.0
// Cost of a decision (bars: 1 ms for 10,000 devices, 10 ms for 100,000), with mostly equal devices and with all devices
// different, and cost of applying it.
#include <benchmark/benchmark.h>

#include "base/prng.h"
#include "core/placement/placement_table.h"

namespace weir::core {
namespace {

constexpr DeviceCapacity kBenchDevice{.memory = MiB(80 << 10), .loads = {100'000, 100'000, 100'000, 100'000}};

constexpr std::uint64_t kKnownWorks = 40;

/// A cluster with two runs on each device. `alike`: the runs are of four kinds of kernels; otherwise each is of its own
/// kind. `known`: the runs have forty known works.
ClusterState BusyCluster(std::uint64_t devices, bool alike, bool known = false) {
  Prng prng(1);
  ClusterState cluster;
  const auto draw = [&prng, alike](std::int64_t most) {
    return static_cast<std::uint64_t>(alike ? prng.Between(1, 4) * most / 4 : prng.Between(1, most));
  };
  for (std::uint64_t id = 1; id <= devices; ++id) {
    if (!cluster.Add(DeviceId{id}, kBenchDevice)) return cluster;
    for (std::uint64_t run = 0; run < 2; ++run) {
      const std::uint64_t kind = draw(40'000);
      RunNeed need{MiB(kind), {kind, 40'000 - kind, kind / 2, 100}, 100 + kind};
      if (known) need = {MiB(kind), {1'000, 2'000, 3'000, 100}, 700, 1 + kind % kKnownWorks};
      if (!cluster.Place(RunId{id * 2 + run}, need, DeviceId{id})) return cluster;
    }
  }
  return cluster;
}

void BM_Choose(benchmark::State& state, const char* name, bool alike) {
  const ClusterState cluster = BusyCluster(static_cast<std::uint64_t>(state.range(0)), alike);
  const auto placement = MakePlacement(name, {}).value();
  const RunNeed need{MiB(100), {1'000, 20'000, 3'000, 100}, 700};
  if (name != std::string_view("serial") && !placement->Choose(cluster, need).device)
    return state.SkipWithError("nothing is chosen, which is what this is the cost of");
  for (auto _ : state) benchmark::DoNotOptimize(placement->Choose(cluster, need).device);
  state.counters["states"] = static_cast<double>(cluster.groups().size());
}
BENCHMARK_CAPTURE(BM_Choose, interference_aware_alike, "interference-aware", true)->Arg(100)->Arg(10'000)->Arg(100'000);
BENCHMARK_CAPTURE(BM_Choose, interference_aware_all_different, "interference-aware", false)
    ->Arg(100)
    ->Arg(10'000)
    ->Arg(100'000);
BENCHMARK_CAPTURE(BM_Choose, serial, "serial", false)->Arg(10'000)->Arg(100'000);
BENCHMARK_CAPTURE(BM_Choose, round_robin, "round-robin", false)->Arg(10'000)->Arg(100'000);
BENCHMARK_CAPTURE(BM_Choose, binpack, "binpack", false)->Arg(10'000)->Arg(100'000);
BENCHMARK_CAPTURE(BM_Choose, spread, "spread", false)->Arg(10'000)->Arg(100'000);

/// Every pair is known, and all runs have the same time alone, so that each device needs a full prediction. The memory
/// of the runs differs, so that no two devices are equal.
void BM_ChooseKnown(benchmark::State& state) {
  const ClusterState cluster = BusyCluster(static_cast<std::uint64_t>(state.range(0)), false, true);
  const auto placement = MakePlacement("interference-aware", {}).value();
  for (std::uint64_t one = 1; one <= kKnownWorks; ++one)
    for (std::uint64_t other = 1; other <= kKnownWorks; ++other)
      placement->model()->Observe(
          {.work = one}, {.slowdown = 1 + static_cast<double>((one * other) % 17) / 20, .neighbours = 1, .only = other},
          kBenchDevice);
  const RunNeed need{MiB(100), {1'000, 2'000, 3'000, 100}, 700, 7};
  if (!placement->Choose(cluster, need).device) return state.SkipWithError("nothing is chosen");
  for (auto _ : state) benchmark::DoNotOptimize(placement->Choose(cluster, need).device);
  state.counters["states"] = static_cast<double>(cluster.groups().size());
}
BENCHMARK(BM_ChooseKnown)->Arg(100)->Arg(10'000)->Arg(100'000);

/// All devices are full; round-robin must check all of them.
void BM_ChooseNone(benchmark::State& state, const char* name) {
  const ClusterState cluster = BusyCluster(static_cast<std::uint64_t>(state.range(0)), false);
  const auto placement = MakePlacement(name, {}).value();
  const RunNeed need{kBenchDevice.memory, {1'000, 20'000, 3'000, 100}, 700};
  for (auto _ : state)
    if (placement->Choose(cluster, need).device) return state.SkipWithError("a device has room");
}
BENCHMARK_CAPTURE(BM_ChooseNone, interference_aware, "interference-aware")->Arg(10'000)->Arg(100'000);
BENCHMARK_CAPTURE(BM_ChooseNone, round_robin, "round-robin")->Arg(10'000)->Arg(100'000);

/// Places a run and releases it.
void BM_PlaceAndRelease(benchmark::State& state, bool alike) {
  ClusterState cluster = BusyCluster(static_cast<std::uint64_t>(state.range(0)), alike);
  const RunNeed need{MiB(100), {1'000, 20'000, 3'000, 100}, 700};
  const RunId run{1};
  std::uint64_t device = 0;
  for (auto _ : state) {
    device = device % static_cast<std::uint64_t>(state.range(0)) + 1;
    if (!cluster.Place(run, need, DeviceId{device}) || !cluster.Release(run)) return state.SkipWithError("no room");
  }
}
BENCHMARK_CAPTURE(BM_PlaceAndRelease, alike, true)->Arg(10'000)->Arg(100'000);
BENCHMARK_CAPTURE(BM_PlaceAndRelease, all_different, false)->Arg(10'000)->Arg(100'000);

/// Learns from one completed run.
void BM_Observe(benchmark::State& state) {
  InterferenceModel model;
  const RunNeed need{MiB(100), {1'000, 20'000, 3'000, 100}, 700};
  for (auto _ : state) {
    model.Observe(need, {500, 30'000, 10, 100}, 2, kBenchDevice, 1.5);
    benchmark::DoNotOptimize(model.weights().data());
  }
}
BENCHMARK(BM_Observe);

}  // namespace
}  // namespace weir::core
