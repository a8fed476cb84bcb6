// SPDX-License-Identifier: Apache-2.0
// The cost of a program's analysis for the caller: of a new source (bar: 150 ms, with weir-analyzer already running)
// and of a known source (bar: 50 us).
#include <benchmark/benchmark.h>

#include "opencl/executor/analyzer_client.h"

namespace weir::opencl {
namespace {

constexpr const char* kProductSource = R"(
__kernel void product(__global const float* a, __global const float* b, __global float* c, int n) {
  int row = get_global_id(1), column = get_global_id(0);
  if (row >= n || column >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}
)";

/// `known`: use the same source each time.
void BM_AnalysisAsk(benchmark::State& state, bool known) {
  AnalyzerClient client(WEIR_ANALYZER);
  kernel::AnalysisRequest request{.options = {"-cl-mad-enable"}, .source = kProductSource};
  if (const auto first = client.Ask(request); !first) return state.SkipWithError(first.error().message.c_str());
  std::uint64_t number = 0;
  for (auto _ : state) {
    if (!known) request.source = kProductSource + ("// " + std::to_string(++number)) + "\n";
    const auto answer = client.Ask(request);
    if (!answer || (*answer)->kernels.size() != 1) return state.SkipWithError("it was not analysed");
    benchmark::DoNotOptimize(answer->get());
  }
}
BENCHMARK_CAPTURE(BM_AnalysisAsk, cold, false)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_AnalysisAsk, known, true)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace weir::opencl
