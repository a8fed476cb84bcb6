// SPDX-License-Identifier: Apache-2.0
// Cost of one change of a slot arena, and of one switch, on 1 TiB in 64 MiB slots with up to 1,000 vGPUs.
#include <benchmark/benchmark.h>

#include "base/prng.h"
#include "core/memory/slot_arena.h"
#include "core/memory/slot_turns.h"

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

/// Looks with and without a waiting vGPU; executors answer immediately.
void BM_TurnsLook(benchmark::State& state, SlotLayout layout, bool waiting) {
  SlotArena arena = CrowdedArena(layout, state.range(0));
  SlotTurns turns(kBenchSlots, {});
  std::vector<SlotNeed> needs;
  for (const VgpuId id : arena.ids()) needs.push_back({.id = id});
  std::vector<VgpuId> changed;
  Instant now = InstantFromNs(1'000'000'000);
  turns.See(now, arena, needs, changed);
  std::size_t turn = 0;
  for (auto _ : state) {
    now += milliseconds(1);
    SlotNeed& need = needs[turn++ % needs.size()];
    if (waiting) need.must = need.wants = arena.CountOf(need.id);
    changed.clear();
    turns.See(now, arena, needs, changed);
    need.must = 0;
  }
  benchmark::DoNotOptimize(turns.switches());
}

BENCHMARK_CAPTURE(BM_ArenaChange, contiguous_2, SlotLayout::kContiguous, 2U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaChange, contiguous_8192, SlotLayout::kContiguous, 8192U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaChange, scattered_2, SlotLayout::kScattered, 2U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaChange, scattered_8192, SlotLayout::kScattered, 8192U)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaAdd, contiguous, SlotLayout::kContiguous)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_ArenaAdd, scattered, SlotLayout::kScattered)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_TurnsLook, quiet, SlotLayout::kContiguous, false)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_TurnsLook, contiguous, SlotLayout::kContiguous, true)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_TurnsLook, scattered, SlotLayout::kScattered, true)->Arg(10)->Arg(1000);

}  // namespace
}  // namespace weir::core
