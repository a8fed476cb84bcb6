// SPDX-License-Identifier: Apache-2.0
// The cost of acquiring objects that are on the device: for a batch that has pinned them already, and for the first
// command of a batch.
#include <benchmark/benchmark.h>

#include "opencl/executor/buffer_store.h"
#include "tests/harness/fake_opencl.h"

namespace weir::opencl {
namespace {

/// `count` objects, all on the device and used by each command.
struct Busy {
  explicit Busy(std::int64_t count) {
    store->Adopt({.number = 2, .elastic = true, .limit = 64, .here = 64, .max = 64});
    natives.resize(static_cast<std::size_t>(count));
    for (cl_mem& native : natives) {
      objects.push_back(store->Make(context, {.size = 4096}, nullptr, nullptr));
      uses.push_back({.object = objects.back().get(), .writes = true, .range = {0, 4096}, .native = &native});
    }
  }
  testing::FakeOpenCl driver;
  std::shared_ptr<Context> context = driver.MakeContext();
  std::shared_ptr<BufferStore> store = std::make_shared<BufferStore>(BufferStore::Options{.device_bytes = 1ULL << 32});
  std::vector<std::shared_ptr<Stored>> objects;
  std::vector<cl_mem> natives;
  std::vector<MemoryUse> uses;
};

void BM_AcquireInABatch(benchmark::State& state) {
  Busy busy(state.range(0));
  Pins pins(busy.store);
  cl_int error = CL_SUCCESS;
  for (auto _ : state) {
    benchmark::DoNotOptimize(busy.store->Ready(busy.uses, &pins));
    benchmark::DoNotOptimize(busy.store->Acquire(busy.uses, &pins, {}, error));
  }
}
BENCHMARK(BM_AcquireInABatch)->Arg(1)->Arg(4)->Arg(16);

void BM_AcquireForABatch(benchmark::State& state) {
  Busy busy(state.range(0));
  cl_int error = CL_SUCCESS;
  for (auto _ : state) {
    benchmark::DoNotOptimize(busy.store->Ready(busy.uses, nullptr));
    Pins pins(busy.store);
    benchmark::DoNotOptimize(busy.store->Acquire(busy.uses, &pins, {}, error));
  }
}
BENCHMARK(BM_AcquireForABatch)->Arg(1)->Arg(4)->Arg(16);

/// Each command evicts one object and loads another, among many others.
void BM_AcquireInsteadOfAnother(benchmark::State& state) {
  Busy busy(state.range(0));
  std::vector<std::shared_ptr<Stored>> large;
  for (int i = 0; i < 2; ++i) large.push_back(busy.store->Make(busy.context, {.size = 3ULL << 20}, nullptr, nullptr));
  busy.store->Adopt({.number = 4, .elastic = true, .limit = 64, .here = 0, .max = 64});
  busy.store->CarryOut();
  busy.store->Adopt({.number = 6, .elastic = true, .limit = 64, .here = 1, .max = 64});
  cl_mem native = nullptr;
  cl_int error = CL_SUCCESS;
  const auto filler = busy.store->Make(busy.context, {.size = 60ULL << 20}, nullptr, nullptr);
  std::size_t which = 0;
  Pins held(busy.store);
  const MemoryUse fill[] = {{.object = filler.get(), .writes = false, .range = {}, .native = &native}};
  busy.store->Acquire(fill, &held, {}, error);
  for (auto _ : state) {
    Pins pins(busy.store);
    const MemoryUse uses[] = {{.object = large[which++ % 2].get(), .writes = false, .range = {}, .native = &native}};
    benchmark::DoNotOptimize(busy.store->Acquire(uses, &pins, {}, error));
  }
}
BENCHMARK(BM_AcquireInsteadOfAnother)->Arg(0);

}  // namespace
}  // namespace weir::opencl
