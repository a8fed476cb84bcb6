// SPDX-License-Identifier: Apache-2.0
// Cost of one change of a slot arena, and of one switch, on 1 TiB in 64 MiB slots with up to 1,000 vGPUs.
#include <benchmark/benchmark.h>

#include "base/prng.h"
#include "core/memory/residency.h"
#include "core/memory/slot_arena.h"

namespace weir::core {
namespace {

constexpr std::uint32_t kBenchSlots = 16'384;

SlotArena CrowdedArena(SlotLayout layout, std::int64_t vgpus) {
  SlotArena arena(kBenchSlots, layout);
  Prng prng(7);
  for (std::int64_t i = 1; i <= vgpus; ++i)
    static_cast<void>(
        arena.Add(VgpuId{static_cast<std::uint64_t>(i)}, static_cast<std::uint32_t>(prng.Between(1, 64)), 256));
  return arena;
}

void BM_ArenaChange(benchmark::State& state, SlotLayout layout, std::uint32_t slots) {
  SlotArena arena = CrowdedArena(layout, state.range(0));
  std::uint64_t id = 0, overlap = 0;
  for (auto _ : state) {
    const VgpuId one{1 + id++ % static_cast<std::uint64_t>(state.range(0))};
    overlap += arena.Expand(one, slots)->overlap;
    overlap += arena.Reduce(one, slots)->overlap;
  }
  benchmark::DoNotOptimize(overlap);
  state.SetItemsProcessed(state.iterations() * 2);
}

void BM_ArenaAdd(benchmark::State& state, SlotLayout layout) {
  SlotArena arena = CrowdedArena(layout, state.range(0));
  const VgpuId newcomer{1'000'000};
  for (auto _ : state) {
    static_cast<void>(arena.Add(newcomer, 64, 256));
    static_cast<void>(arena.Remove(newcomer));
  }
}

void BM_ResidencySwitch(benchmark::State& state, SlotLayout layout) {
  const SlotArena arena = CrowdedArena(layout, state.range(0));
  Residency residency(kBenchSlots);
  const auto count = static_cast<std::uint64_t>(state.range(0));
  std::uint64_t turn = 0, copies = 0;
  for (auto _ : state) {
    const VgpuId runs{1 + turn % count}, next{1 + (turn + 1) % count};
    ++turn;
    const ResidencyPlan plan = residency.Plan(arena, runs, next);
    copies += plan.copies_in;
    static_cast<void>(residency.Done(plan));
    for (const SlotRange& range : arena.RangesOf(runs)) static_cast<void>(residency.Wrote(runs, range));
  }
  benchmark::DoNotOptimize(copies);
}

BENCHMARK_CAPTURE(BM_ArenaChange, contiguous_2, SlotLayout::kContiguous, 2U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaChange, contiguous_8192, SlotLayout::kContiguous, 8192U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaChange, scattered_2, SlotLayout::kScattered, 2U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaChange, scattered_8192, SlotLayout::kScattered, 8192U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaAdd, contiguous, SlotLayout::kContiguous)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaAdd, scattered, SlotLayout::kScattered)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ResidencySwitch, contiguous, SlotLayout::kContiguous)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ResidencySwitch, scattered, SlotLayout::kScattered)->Arg(10)->Arg(1000);

}  // namespace
}  // namespace weir::core
