// SPDX-License-Identifier: Apache-2.0
// Cost of one look of a balloon at 1 TiB in slots of 64 MiB, in which one of up to 1,000 vGPUs gives up slots.
#include <benchmark/benchmark.h>

#include "core/memory/balloon.h"

namespace weir::core {
namespace {

void BM_BalloonLook(benchmark::State& state, double layout) {
  Balloon balloon(*CheckBalloonParams({{"layout", layout}}), {.slots = 16'384});
  std::vector<MemoryView> views;
  for (std::uint64_t id = 1; id <= static_cast<std::uint64_t>(state.range(0)); ++id) {
    views.push_back({.id = VgpuId{id}, .threads = 1});
    static_cast<void>(balloon.Add(VgpuId{id}, MiB(64), Bytes{}));
    static_cast<void>(balloon.Ask(Instant{}, VgpuId{id}, MiB(64 * 256)));
  }
  std::vector<BalloonNote> notes;
  Instant now = InstantFromNs(1'000'000'000);
  balloon.See(now, views, notes);
  for (auto _ : state) {
    now += milliseconds(500);
    for (MemoryView& view : views) {
      view.copying += milliseconds(400);  // f is over the high line
      view.steal += milliseconds(250);
      view.elsewhere += milliseconds(250);
    }
    notes.clear();
    balloon.See(now, views, notes);
  }
  benchmark::DoNotOptimize(notes.data());
}

BENCHMARK_CAPTURE(BM_BalloonLook, contiguous, 0.0)->Arg(10)->Arg(1000);
BENCHMARK_CAPTURE(BM_BalloonLook, scattered, 1.0)->Arg(10)->Arg(1000);

}  // namespace
}  // namespace weir::core
