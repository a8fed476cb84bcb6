// SPDX-License-Identifier: Apache-2.0
// The cost of one present through the preloaded stub and a driver that does nothing. The stub reads its environment
// once in a process, so that one process measures one variant: weir_present_bench --variant=NAME. scripts/bench-present
// runs all variants side by side and checks the bounds.
#include <benchmark/benchmark.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/bench_variants.h"
#include "tests/harness/wait_until.h"

extern "C" {
// The stub's functions: they come before the fake driver's.
void glXSwapBuffers(void* display, unsigned long drawable);
int glXMakeCurrent(void* display, unsigned long drawable, void* context);
void glFlush(void);
void glReadPixels(int x, int y, int width, int height, unsigned format, unsigned type, void* pixels);
// The fake driver's functions.
void weir_fake_swap(void* display, unsigned long drawable);
void weir_fake_flush(void);
unsigned long weir_fake_swaps(void);
unsigned long weir_fake_flushes(void);
void weir_fake_read(int x, int y, int width, int height, unsigned format, unsigned type, void* pixels);
}

namespace weir {
namespace {

using testing::GateHost;

/// What is measured: presents, flushes or readbacks of a program that presents, or flushes of one that never does.
enum class Calls { kPresents, kFlushes, kReadbacks, kBatches };

struct Variant {
  const char* name;
  bool through_stub;
  const char* attach;  // nullptr: WEIR_ATTACH is not set; "": the host's socket
  const char* meter;
  int workers;
  Calls calls = Calls::kPresents;
};
constexpr Variant kVariants[] = {
    {"bare", false, nullptr, nullptr, 0},                              // the fake driver alone
    {"pass-through", true, nullptr, nullptr, 0},                       // preloaded without a vGPU
    {"nobody-there", true, "/nonexistent/weir", nullptr, 0},           // configured to attach, but no daemon answers
    {"gated", true, "", "wall-clock", 0},                              // an ample allowance, the cheapest meter
    {"gated-llvmpipe", true, "", "worker-cpu-time", 2},                // with the meter for llvmpipe and two workers
    {"gated-llvmpipe-16", true, "", "worker-cpu-time", 16},            // the same with the workers of a large machine
    {"flush-bare", false, nullptr, nullptr, 0, Calls::kFlushes},       // the fake driver's glFlush alone
    {"flush", true, "", "wall-clock", 0, Calls::kFlushes},             // while gated: the cost of every flush
    {"readback-bare", false, nullptr, nullptr, 0, Calls::kReadbacks},  // the fake driver's glReadPixels alone
    {"readback", true, "", "wall-clock", 0, Calls::kReadbacks},        // while gated
    {"batch", true, "", "wall-clock", 0, Calls::kBatches},             // tiny flushes off screen
    {"batch-llvmpipe", true, "", "worker-cpu-time", 2, Calls::kBatches},  // with the meter for llvmpipe
};

/// A sleeping thread with the name of an llvmpipe worker.
class IdleWorker {
 public:
  explicit IdleWorker(const std::string& name)
      : thread_([this, name] {
          ::pthread_setname_np(::pthread_self(), name.c_str());
          named_ = true;
          ended_.wait(false);
        }) {
    while (!named_) std::this_thread::yield();
  }
  ~IdleWorker() {
    ended_ = true;
    ended_.notify_all();
    thread_.join();
  }

 private:
  std::atomic<bool> named_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

void BM_Present(benchmark::State& state, const Variant& variant, GateHost* host) {
  const auto present = variant.through_stub ? &glXSwapBuffers : &weir_fake_swap;
  constexpr int kBatch = 512;  // half a ring: no record is dropped
  const auto attached = [&] {
    present(nullptr, 1);  // opens the shim and attaches
    return host == nullptr || !host->Drain().frames.empty();
  };
  if (!testing::WaitUntil(attached)) return state.SkipWithError("can't attach");
  const unsigned long before = weir_fake_swaps();
  std::size_t frames = 0;
  std::uint64_t lost = 0;
  while (state.KeepRunningBatch(kBatch)) {
    for (int i = 0; i < kBatch; ++i) present(nullptr, 1);
    if (host == nullptr) continue;
    state.PauseTiming();  // the daemon's work is not measured
    const gate::Drained drained = host->Drain();
    frames += drained.frames.size();
    lost += drained.lost + drained.bad;
    state.ResumeTiming();
  }
  const unsigned long swaps = weir_fake_swaps() - before;
  if (swaps != static_cast<unsigned long>(state.iterations())) state.SkipWithError("a present didn't arrive");
  if (host != nullptr && (frames != swaps || lost != 0)) state.SkipWithError("presents passed without the gate");
}

/// Calls of a program that presents now and then: none of them passes the gate.
template <typename Call, typename Count>
void MeasureCalls(benchmark::State& state, GateHost* host, Call call, Count calls_made) {
  void* const double_buffered = reinterpret_cast<void*>(2);
  constexpr int kBatch = 4096;
  const auto attached = [&] {
    glXSwapBuffers(nullptr, 1);
    return host == nullptr || !host->Drain().frames.empty();
  };
  if (!testing::WaitUntil(attached)) return state.SkipWithError("can't attach");
  if (glXMakeCurrent(nullptr, 1, double_buffered) == 0) return state.SkipWithError("can't make a context current");
  const unsigned long before = calls_made();
  std::size_t presents = 0, frames = 0;
  while (state.KeepRunningBatch(kBatch)) {
    for (int i = 0; i < kBatch; ++i) call();
    if (host == nullptr) continue;
    state.PauseTiming();
    glXSwapBuffers(nullptr, 1);
    ++presents;
    frames += host->Drain().frames.size();
    state.ResumeTiming();
  }
  if (calls_made() - before != static_cast<unsigned long>(state.iterations()))
    state.SkipWithError("a call didn't arrive");
  if (host != nullptr && frames != presents) state.SkipWithError("a call was taken for a frame");
}

void BM_Flush(benchmark::State& state, const Variant& variant, GateHost* host) {
  MeasureCalls(state, host, variant.through_stub ? &glFlush : &weir_fake_flush, &weir_fake_flushes);
}

void BM_Readback(benchmark::State& state, const Variant& variant, GateHost* host) {
  const auto read = variant.through_stub ? &glReadPixels : &weir_fake_read;
  unsigned long reads = 0;
  int pixel = 0;
  const auto call = [&] {
    read(0, 0, 1, 1, 0, 0, &pixel);
    ++reads;
  };
  MeasureCalls(state, host, call, [&] { return reads; });
}

/// Flushes of a program that never presents. Some pass the gate; the figure is their mean.
void BM_Batch(benchmark::State& state, const Variant&, GateHost* host) {
  constexpr int kBatch = 4096;
  if (glXMakeCurrent(nullptr, 0, reinterpret_cast<void*>(2)) == 0)
    return state.SkipWithError("can't make a context current");
  const auto attached = [&] {
    glFlush();
    return !host->Drain().frames.empty();
  };
  if (!testing::WaitUntil(attached)) return state.SkipWithError("can't attach");
  std::size_t batches = 0;
  while (state.KeepRunningBatch(kBatch)) {
    for (int i = 0; i < kBatch; ++i) glFlush();
    state.PauseTiming();
    batches += host->Drain().frames.size();
    state.ResumeTiming();
  }
  if (batches < static_cast<std::size_t>(state.iterations()) / 16) state.SkipWithError("flushes escaped the gate");
}

int Run(const Variant& variant, int argc, char** argv) {
  std::vector<std::unique_ptr<IdleWorker>> workers;
  for (int i = 0; i < variant.workers; ++i)
    workers.push_back(std::make_unique<IdleWorker>("llvmpipe-" + std::to_string(i)));
  const testing::BenchGate gate(variant.attach);
  ::unsetenv("WEIR_METER");
  if (variant.meter != nullptr) ::setenv("WEIR_METER", variant.meter, 1);
  const auto measure = variant.calls == Calls::kFlushes     ? &BM_Flush
                       : variant.calls == Calls::kReadbacks ? &BM_Readback
                       : variant.calls == Calls::kBatches   ? &BM_Batch
                                                            : &BM_Present;
  return testing::RunBenchmark(variant.name, argc, argv,
                               [&](benchmark::State& state) { measure(state, variant, gate.host()); });
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::testing::ChooseVariant(weir::kVariants, argc, argv, &weir::Run); }
