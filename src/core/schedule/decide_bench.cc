// SPDX-License-Identifier: Apache-2.0
// Cost of one decision for 1 to 10,000 competing vGPUs of one device, half of them with promised frames. `cap`, the
// only policy that uses ceilings, is also measured with each vGPU sold more than its cap. BM_DecideBesideIdle has 5
// competing vGPUs beside resting ones, whose number must make no difference.
#include <benchmark/benchmark.h>

#include "base/prng.h"
#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

VgpuView IdleView(std::uint32_t i) { return {.id = VgpuId{i + 1}, .slot = i, .attached = true}; }

void BM_DecideBesideIdle(benchmark::State& state, const char* name) {
  auto policy = *MakePolicy(name, {});
  constexpr std::uint32_t kActive = 5;
  const auto count = static_cast<std::uint32_t>(state.range(0));
  std::vector<VgpuView> views;
  for (std::uint32_t i = 0; i < count; ++i) {
    views.push_back(IdleView(i));
    if (i >= kActive) continue;
    views.back().waiting = 1;
    views.back().frame_gpu = milliseconds(1);
    views.back().promised = milliseconds(i % 2 == 0 ? 33 : 0);
  }
  std::vector<Verdict> verdicts(count);
  PolicyInput input{.now = InstantFromNs(1'000'000'000'000), .vgpus = views};
  policy->Decide(input, verdicts);
  input.vgpus = std::span(views).first(kActive);
  input.resting = {.views = std::span(views).subspan(kActive),
                   .weights = count - kActive,
                   .cap_weights = std::uint64_t{count - kActive} * kWeightMax,
                   .changes = 1,
                   .attached = count - kActive};
  std::int64_t sum = 0;
  for (auto _ : state) {
    input.now += milliseconds(1);
    views[static_cast<std::size_t>(NsOf(input.now) / 1'000'000) % kActive].used += milliseconds(1);
    policy->Decide(input, std::span(verdicts).first(kActive));
    sum += verdicts.front().allowance.count();
  }
  benchmark::DoNotOptimize(sum);
}

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

#define WEIR_BESIDE_IDLE(policy, name) \
  BENCHMARK_CAPTURE(BM_DecideBesideIdle, policy, name)->Arg(5)->Arg(10)->Arg(100)->Arg(1'000)->Arg(10'000)
WEIR_BESIDE_IDLE(none, "none");
WEIR_BESIDE_IDLE(proportional_share, "proportional-share");
WEIR_BESIDE_IDLE(sla_aware, "sla-aware");
WEIR_BESIDE_IDLE(hybrid, "hybrid");
WEIR_BESIDE_IDLE(reserve, "reserve");
WEIR_BESIDE_IDLE(cap, "cap");
WEIR_BESIDE_IDLE(cap_paper, "cap-paper");
WEIR_BESIDE_IDLE(round_robin, "round-robin");

}  // namespace
}  // namespace weir::core
