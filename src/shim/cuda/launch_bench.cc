// SPDX-License-Identifier: Apache-2.0
// The cost of one launch through Weir's libcuda.so.1 and a driver that does nothing. The shim reads its environment
// once in a process, so that one process measures one variant: weir_cuda_bench --variant=NAME. scripts/bench-present
// runs all variants side by side and checks the bounds.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdlib>

#include "tests/harness/bench_variants.h"
#include "tests/harness/wait_until.h"

namespace weir {
namespace {

using testing::GateHost;
using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
using Query = int(void*);
using GetDevice = int(int*);

enum class Calls { kLaunches, kQueries, kPassedOn };

struct Variant {
  const char* name;
  bool through_library;
  const char* attach;  // nullptr: WEIR_ATTACH is not set; "": the host's socket
  Calls calls = Calls::kLaunches;
};
constexpr Variant kVariants[] = {
    {"cuda-bare", false, nullptr},                         // the fake driver alone
    {"cuda-unmanaged", true, nullptr},                     // the library without a vGPU
    {"cuda-gated", true, ""},                              // an ample allowance
    {"cuda-query-bare", false, nullptr, Calls::kQueries},  // queries that find all work done
    {"cuda-query-unmanaged", true, nullptr, Calls::kQueries},
    {"cuda-query-gated", true, "", Calls::kQueries},            // all work is charged
    {"cuda-passed-on-bare", false, nullptr, Calls::kPassedOn},  // a function that the library passes on
    {"cuda-passed-on", true, nullptr, Calls::kPassedOn},
};

void Measure(benchmark::State& state, const Variant& variant, GateHost* host) {
  constexpr int kBatch = 512;
  void* library = ::dlopen(variant.through_library ? WEIR_CUDA_LIBRARY : WEIR_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return state.SkipWithError(::dlerror());
  auto* const launch = reinterpret_cast<Launch*>(::dlsym(library, "cuLaunchKernel"));
  auto* const query = reinterpret_cast<Query*>(::dlsym(library, "cuStreamQuery"));
  auto* const get_device = reinterpret_cast<GetDevice*>(::dlsym(library, "cuCtxGetDevice"));
  const auto launches = [&](int count) {
    for (int i = 0; i < count; ++i) launch(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  };
  const auto attached = [&] {
    launches(1);
    return host == nullptr || !host->Drain().frames.empty();
  };
  if (!testing::WaitUntil(attached)) return state.SkipWithError("can't attach");
  std::size_t batches = 0;
  int device = 0;
  while (state.KeepRunningBatch(kBatch)) {
    switch (variant.calls) {
      case Calls::kLaunches: launches(kBatch); break;
      case Calls::kQueries:
        for (int i = 0; i < kBatch; ++i) query(nullptr);
        break;
      case Calls::kPassedOn:
        for (int i = 0; i < kBatch; ++i) get_device(&device);
        break;
    }
    state.PauseTiming();  // the daemon's work is not measured
    if (host != nullptr) batches += host->Drain().frames.size();
    state.ResumeTiming();
  }
  if (host != nullptr && variant.calls == Calls::kLaunches &&
      batches < static_cast<std::size_t>(state.iterations()) / 128)
    state.SkipWithError("launches passed without the gate");
}

int Run(const Variant& variant, int argc, char** argv) {
  const testing::BenchGate gate(variant.attach);
  ::setenv("WEIR_CUDA_DRIVER", WEIR_FAKE_CUDA, 1);
  return testing::RunBenchmark(variant.name, argc, argv,
                               [&](benchmark::State& state) { Measure(state, variant, gate.host()); });
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::testing::ChooseVariant(weir::kVariants, argc, argv, &weir::Run); }
