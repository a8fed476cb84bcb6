// SPDX-License-Identifier: Apache-2.0
// Cost of one decision for 1 to 10,000 competing vGPUs of one device, half of them with promised frames. For `cap`,
// which alone uses ceilings, also with each vGPU sold more than its cap.
#include <benchmark/benchmark.h>

#include "base/prng.h"
#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

void BM_Decide(benchmark::State& state, const char* name, bool sold) {
  auto policy = *MakePolicy(name, {});
  const auto count = static_cast<std::uint32_t>(state.range(0));
  Prng prng(7);
  std::vector<VgpuView> views;
  for (std::uint32_t i = 0; i < count; ++i)
    views.push_back({.id = VgpuId{i + 1},
                     .slot = i,
                     .weight = static_cast<std::uint32_t>(prng.Between(1, 100)),
                     .cap = Share::FromFraction(sold ? 0.3 / count : 1),
                     .waiting = 1,
                     .frame_gpu = milliseconds(1),
                     .promised = milliseconds(i % 2 == 0 ? 33 : 0),
                     .attached = true,
                     .ceiling = Share::FromFraction(sold ? 0.5 : 0),
                     .share_promised = sold && i % 4 == 1});
  std::vector<Verdict> verdicts(count);
  Instant now = InstantFromNs(1'000'000'000);
  std::int64_t sum = 0;
  for (auto _ : state) {
    now += milliseconds(1);
    views[static_cast<std::size_t>(NsOf(now) / 1'000'000) % count].used += milliseconds(1);
    policy->Decide({now, views}, verdicts);
    sum += verdicts.back().allowance.count();
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations() * count);
}

BENCHMARK_CAPTURE(BM_Decide, none, "none", false)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK_CAPTURE(BM_Decide, proportional_share, "proportional-share", false)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK_CAPTURE(BM_Decide, reserve, "reserve", false)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK_CAPTURE(BM_Decide, cap, "cap", false)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK_CAPTURE(BM_Decide, cap_sold, "cap", true)->RangeMultiplier(10)->Range(1, 10'000);

}  // namespace
}  // namespace weir::core
