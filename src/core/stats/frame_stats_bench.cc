// SPDX-License-Identifier: Apache-2.0
// Cost of counting one frame, as the daemon does for each record that it drains: of one program at a steady 60
// frames/s, and of 100 vGPUs whose frames take 1 to 120 ms.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/prng.h"
#include "core/stats/frame_stats.h"

namespace weir::core {
namespace {

void BM_AddFrames(benchmark::State& state, Duration shortest, Duration longest) {
  Prng prng(1);
  std::vector<FrameDone> frames(4'096);
  for (FrameDone& frame : frames) {
    const Duration latency{prng.Between(shortest.count(), longest.count())};
    frame.present = Instant{latency};  // the end follows below
    frame.wait = Duration{prng.Between(0, latency.count() / 4)};
  }
  std::vector<FrameStats> vgpus(static_cast<std::size_t>(state.range(0)));
  Instant now = InstantFromNs(1'000'000'000'000);
  std::size_t at = 0;
  for (auto _ : state) {
    FrameDone frame = frames[at % frames.size()];
    now += milliseconds(1);
    frame.begin = now - frame.present.time_since_epoch();
    frame.present = frame.end = now;
    vgpus[at % vgpus.size()].Add(frame, {.fps = 60}, Duration{0});
    ++at;
  }
  benchmark::DoNotOptimize(vgpus.front().totals());
}

BENCHMARK_CAPTURE(BM_AddFrames, steady, milliseconds(16), milliseconds(17))->Arg(1)->Arg(100);
BENCHMARK_CAPTURE(BM_AddFrames, mixed, milliseconds(1), milliseconds(120))->Arg(1)->Arg(100);

}  // namespace
}  // namespace weir::core
