// SPDX-License-Identifier: Apache-2.0
// For benchmarks of the shims: a shim reads its environment once in a process, so each process measures one variant,
// which --variant=NAME chooses.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"

namespace weir::testing {

/// The gate of one variant, named by WEIR_ATTACH.
class BenchGate {
 public:
  /// `attach`: null: WEIR_ATTACH is not set; "": the socket of a host with an ample allowance; otherwise its value.
  explicit BenchGate(const char* attach) {
    ::unsetenv("WEIR_ATTACH");
    if (attach == nullptr) return;
    if (*attach == '\0') {
      host_ = std::make_unique<GateHost>(folder_ / "v");
      host_->SetAllowance(std::int64_t{1} << 60);
      host_->SetMode(proto::GateMode::kGated);
    }
    ::setenv("WEIR_ATTACH", host_ ? (folder_ / "v").c_str() : attach, 1);
  }
  /// Null: the variant has none.
  [[nodiscard]] GateHost* host() const { return host_.get(); }

 private:
  TempFolder folder_;
  std::unique_ptr<GateHost> host_;
};

/// Runs one benchmark with the options that are left. Returns the program's exit status.
template <typename Measure>
int RunBenchmark(const char* name, int argc, char** argv, Measure measure) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RegisterBenchmark(name, measure);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

/// The benchmark's main(): `run(variant, argc, argv)` for the variant that is named. A variant has a `name`.
template <typename Variant, std::size_t kCount>
int ChooseVariant(const Variant (&variants)[kCount], int argc, char** argv, int (*run)(const Variant&, int, char**)) {
  const std::string option = "--variant=";
  for (int i = 1; i < argc; ++i) {
    for (const Variant& variant : variants) {
      if (argv[i] != option + variant.name) continue;
      std::copy(argv + i + 1, argv + argc + 1, argv + i);
      return run(variant, argc - 1, argv);
    }
  }
  const char* slash = std::strrchr(argv[0], '/');
  std::fprintf(stderr, "usage: %s --variant=NAME [--benchmark_...]; NAME is one of:", slash ? slash + 1 : argv[0]);
  for (const Variant& variant : variants) std::fprintf(stderr, " %s", variant.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace weir::testing
