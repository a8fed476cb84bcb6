// SPDX-License-Identifier: Apache-2.0
// What is claimed and released for the program's allocations, on a driver that keeps books of its own.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <vector>

#include "shim/cuda/allocations.h"
#include "shim/cuda/array_size.h"
#include "shim/cuda/hooks.h"
#include "shim/cuda/streams.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's
using weir::shim::cuda::Array3dDescriptor;
using weir::shim::cuda::ArrayDescriptor;
using weir::shim::cuda::CudaHandle;
using weir::shim::cuda::CudaPointer;
using weir::shim::cuda::CudaResult;
extern "C" {
CudaResult cuMemAlloc_v2(CudaPointer*, size_t);
CudaResult cuMemAllocManaged(CudaPointer*, size_t, unsigned);
CudaResult cuMemAllocPitch_v2(CudaPointer*, size_t*, size_t, size_t, unsigned);
CudaResult cuMemFree_v2(CudaPointer);
CudaResult cuArrayCreate_v2(CudaHandle*, const ArrayDescriptor*);
CudaResult cuArrayDestroy(CudaHandle);
CudaResult cuMemAllocAsync(CudaPointer*, size_t, CudaHandle);
CudaResult cuMemFreeAsync(CudaPointer, CudaHandle);
CudaResult cuMemCreate(unsigned long long*, size_t, const void*, unsigned long long);
CudaResult cuMemRelease(unsigned long long);
CudaResult cuMemMap(CudaPointer, size_t, size_t, unsigned long long, unsigned long long);
CudaResult cuMemUnmap(CudaPointer, size_t);
CudaResult cuMemRetainAllocationHandle(unsigned long long*, void*);
CudaResult cuCtxDestroy_v2(CudaHandle);
CudaResult cuDevicePrimaryCtxRetain(CudaHandle*, int);
CudaResult cuDevicePrimaryCtxRelease_v2(int);
CudaResult cuDevicePrimaryCtxReset_v2(int);
CudaResult cuMemGetInfo_v2(size_t*, size_t*);
CudaResult cuDeviceTotalMem_v2(size_t*, int);
}
// NOLINTEND(readability-identifier-naming)

namespace weir::shim::cuda {

void* weir_cuda_driver[kFunctions];

namespace {

constexpr CudaResult kRefuses = 999;

/// The vGPU: what is claimed, and the limit.
struct FakeGate {
  std::uint64_t held = 0, limit = 0;
  int refused = 0;
};
FakeGate gate;

/// The driver: what is allocated, by number. Numbers are used again as soon as they are free.
struct FakeDriver {
  struct Physical {
    std::uint64_t bytes = 0;
    unsigned names = 0, mappings = 0;
  };
  std::map<std::uint64_t, std::uint64_t> blocks;
  std::map<std::uint64_t, Physical> physical;
  std::map<std::uint64_t, std::uint64_t> mapped;  // address to handle
  static inline int own_context = 0;
  CudaHandle context = &own_context;
  bool fails = false, captures = false, active = true;
  size_t pitch = 1024;
  int calls = 0;

  CudaResult New(std::uint64_t* number, std::uint64_t bytes) {
    ++calls;
    if (fails || bytes == 0) return kRefuses;
    std::uint64_t next = 0x1000;
    while (blocks.contains(next)) next += 0x1000;
    blocks[next] = bytes;
    *number = next;
    return kSuccess;
  }
  CudaResult End(std::uint64_t number) { return !fails && blocks.erase(number) == 1 ? kSuccess : kRefuses; }
  void EndPhysical(std::uint64_t handle) {
    if (physical[handle].names == 0 && physical[handle].mappings == 0) physical.erase(handle);
  }
  [[nodiscard]] std::uint64_t Held() const {
    std::uint64_t sum = 0;
    for (const auto& [number, bytes] : blocks) sum += bytes;
    for (const auto& [handle, one] : physical) sum += one.bytes;
    return sum;
  }
};
FakeDriver driver;

template <typename Type>
void SetCall(Function function, Type* code) {
  weir_cuda_driver[function] = reinterpret_cast<void*>(code);
}

constexpr int kOnDevice[] = {1, 0, 1, 0}, kOnHost[] = {1, 0, 2, 0};

class CountedMemory : public ::testing::Test {
 protected:
  CountedMemory() { StartAgain(); }

  static void StartAgain() {
    // The library's own table is that of the process: what an earlier test left is freed.
    driver.fails = driver.captures = false;
    while (!driver.blocks.empty()) {
      const std::uint64_t number = driver.blocks.begin()->first;
      if (cuMemFree_v2(number) != kSuccess) driver.blocks.erase(number);
      driver.blocks[number] = 1;
      cuArrayDestroy(reinterpret_cast<CudaHandle>(number));
    }
    while (!driver.mapped.empty()) cuMemUnmap(driver.mapped.begin()->first, 0x1000);
    while (!driver.physical.empty()) cuMemRelease(driver.physical.begin()->first);
    driver = {};
    gate = {};
  }

 private:
  static inline const bool kCallsAreSet = [] {
    SetCall(
        kCall_cuCtxGetCurrent, +[](CudaHandle* context) { return *context = driver.context, kSuccess; });
    SetCall(
        kCall_cuMemAlloc_v2, +[](CudaPointer* pointer, size_t bytes) {
          std::uint64_t number = 0;
          const CudaResult result = driver.New(&number, bytes);
          if (result == kSuccess) *pointer = number;
          return result;
        });
    SetCall(
        kCall_cuMemAllocManaged, +[](CudaPointer* pointer, size_t bytes, unsigned) {
          return Driver<CudaResult(CudaPointer*, size_t)>(kCall_cuMemAlloc_v2)(pointer, bytes);
        });
    SetCall(
        kCall_cuMemAllocPitch_v2, +[](CudaPointer* pointer, size_t* pitch, size_t, size_t height, unsigned) {
          *pitch = driver.pitch;
          return Driver<CudaResult(CudaPointer*, size_t)>(kCall_cuMemAlloc_v2)(pointer, driver.pitch * height);
        });
    SetCall(
        kCall_cuMemAllocAsync, +[](CudaPointer* pointer, size_t bytes, CudaHandle) {
          return Driver<CudaResult(CudaPointer*, size_t)>(kCall_cuMemAlloc_v2)(pointer, bytes);
        });
    SetCall(
        kCall_cuMemFree_v2, +[](CudaPointer pointer) { return driver.End(pointer); });
    SetCall(
        kCall_cuMemFreeAsync, +[](CudaPointer pointer, CudaHandle) { return driver.End(pointer); });
    SetCall(
        kCall_cuArrayCreate_v2, +[](CudaHandle* array, const ArrayDescriptor* descriptor) {
          std::uint64_t number = 0;
          const CudaResult result = driver.New(&number, BytesOf(*descriptor));
          if (result == kSuccess) *array = reinterpret_cast<CudaHandle>(number);
          return result;
        });
    SetCall(
        kCall_cuArrayDestroy, +[](CudaHandle array) { return driver.End(reinterpret_cast<std::uint64_t>(array)); });
    SetCall(
        kCall_cuMemCreate, +[](unsigned long long* handle, size_t bytes, const void*, unsigned long long) {
          if (driver.fails) return kRefuses;
          std::uint64_t next = 1;
          while (driver.physical.contains(next)) ++next;
          driver.physical[next] = {.bytes = bytes, .names = 1};
          *handle = next;
          return kSuccess;
        });
    SetCall(
        kCall_cuMemRelease, +[](unsigned long long handle) {
          const auto found = driver.physical.find(handle);
          if (driver.fails || found == driver.physical.end() || found->second.names == 0) return kRefuses;
          --found->second.names;
          driver.EndPhysical(handle);
          return kSuccess;
        });
    SetCall(
        kCall_cuMemMap, +[](CudaPointer address, size_t, size_t, unsigned long long handle, unsigned long long) {
          const auto found = driver.physical.find(handle);
          if (driver.fails || found == driver.physical.end() || driver.mapped.contains(address)) return kRefuses;
          if (found->second.names == 0) return kRefuses;
          ++found->second.mappings;
          driver.mapped[address] = handle;
          return kSuccess;
        });
    SetCall(
        kCall_cuMemUnmap, +[](CudaPointer address, size_t) {
          const auto found = driver.mapped.find(address);
          if (driver.fails || found == driver.mapped.end()) return kRefuses;
          --driver.physical[found->second].mappings;
          driver.EndPhysical(found->second);
          driver.mapped.erase(found);
          return kSuccess;
        });
    SetCall(
        kCall_cuMemRetainAllocationHandle, +[](unsigned long long* handle, void* address) {
          const auto found = driver.mapped.find(reinterpret_cast<std::uint64_t>(address));
          if (driver.fails || found == driver.mapped.end()) return kRefuses;
          ++driver.physical[found->second].names;
          *handle = found->second;
          return kSuccess;
        });
    SetCall(
        kCall_cuCtxDestroy_v2, +[](CudaHandle) { return driver.fails ? kRefuses : kSuccess; });
    SetCall(
        kCall_cuDevicePrimaryCtxRetain, +[](CudaHandle* context, int) { return *context = driver.context, kSuccess; });
    SetCall(
        kCall_cuDevicePrimaryCtxRelease_v2, +[](int) { return kSuccess; });
    SetCall(
        kCall_cuDevicePrimaryCtxReset_v2, +[](int) { return kSuccess; });
    SetCall(
        kCall_cuDevicePrimaryCtxGetState,
        +[](int, unsigned*, int* active) { return *active = driver.active ? 1 : 0, kSuccess; });
    SetCall(
        kCall_cuMemGetInfo_v2, +[](size_t* free, size_t* total) { return *free = 700, *total = 1000, kSuccess; });
    SetCall(
        kCall_cuDeviceTotalMem_v2, +[](size_t* bytes, int) { return *bytes = 1000, kSuccess; });
    return true;
  }();
};

TEST_F(CountedMemory, IsWhatTheDriverHasAllocatedInAnyOrderOfCalls) {
  EXPECT_TRUE(rc::check("all kinds, with failures", [] {
    StartAgain();
    gate.limit = *rc::gen::inRange(0, 3) == 0 ? 0 : 100'000;
    std::vector<CudaPointer> pointers{1};
    std::vector<CudaHandle> arrays{nullptr};
    std::vector<unsigned long long> handles{99};
    const auto any = [](const auto& all) { return all[*rc::gen::inRange<std::size_t>(0, all.size())]; };
    const int steps = *rc::gen::inRange(0, 60);
    for (int i = 0; i < steps; ++i) {
      driver.fails = *rc::gen::inRange(0, 5) == 0;
      const auto bytes = *rc::gen::inRange<std::size_t>(0, 30'000);
      CudaPointer pointer = 0;
      CudaHandle array = nullptr;
      unsigned long long handle = 0;
      const ArrayDescriptor texels{bytes / 4, 1, 0x20, 1};
      switch (*rc::gen::inRange(0, 13)) {
        case 0: cuMemAlloc_v2(&pointer, bytes); break;
        case 1: cuMemAllocManaged(&pointer, bytes, 1); break;
        case 2: cuMemAllocAsync(&pointer, bytes, nullptr); break;
        case 3: cuMemFree_v2(any(pointers)); break;
        case 4: cuMemFreeAsync(any(pointers), nullptr); break;
        case 5: cuArrayCreate_v2(&array, &texels); break;
        case 6:
          // The driver keeps one list of both kinds; a program frees each by its own function.
          if (const CudaHandle one = any(arrays); one != nullptr) {
            cuArrayDestroy(one);
            std::erase(arrays, one);
          }
          break;
        case 7: cuMemCreate(&handle, bytes, kOnDevice, 0); break;
        case 8: cuMemRelease(any(handles)); break;
        case 9: cuMemMap(static_cast<CudaPointer>(*rc::gen::inRange(1, 4)) << 12, 0x1000, 0, any(handles), 0); break;
        case 10: cuMemUnmap(static_cast<CudaPointer>(*rc::gen::inRange(1, 4)) << 12, 0x1000); break;
        case 11:
          cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(std::size_t{0x1000} * *rc::gen::inRange(1, 4)));
          break;
        default: cuMemAllocPitch_v2(&pointer, &driver.pitch, 10, bytes / 1024, 4); break;
      }
      if (pointer != 0) std::erase(pointers, pointer), pointers.push_back(pointer);
      if (array != nullptr) arrays.push_back(array), std::erase(pointers, reinterpret_cast<std::uint64_t>(array));
      if (pointer != 0) std::erase(arrays, reinterpret_cast<CudaHandle>(pointer));
      if (handle != 0) handles.push_back(handle);
      RC_ASSERT(gate.held == driver.Held());
      RC_ASSERT(gate.limit == 0 || gate.held <= gate.limit);
    }
  }));
}

TEST_F(CountedMemory, ThatIsRefusedIsNotAskedOfTheDriver) {
  gate.limit = 100;
  CudaPointer pointer = 0;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 101), kOutOfMemory);
  EXPECT_EQ(driver.calls, 0);
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 100), kSuccess);
  EXPECT_EQ(cuMemAllocManaged(&pointer, 1, 1), kOutOfMemory);
  EXPECT_EQ(gate.refused, 2);
}

TEST_F(CountedMemory, WithAPitchIsWhatTheDriverHasChosen) {
  CudaPointer pointer = 0;
  size_t pitch = 0;
  driver.pitch = 4096;
  EXPECT_EQ(cuMemAllocPitch_v2(&pointer, &pitch, 10, 3, 4), kSuccess);
  EXPECT_EQ(gate.held, 3U * 4096);
  driver.pitch = 64;
  EXPECT_EQ(cuMemAllocPitch_v2(&pointer, &pitch, 10, 3, 4), kSuccess);
  EXPECT_EQ(gate.held, 3U * (4096 + 64));
  // What the limit has no room for is given back to the driver.
  gate.limit = gate.held + 3 * 4096 - 1;
  driver.pitch = 4096;
  EXPECT_EQ(cuMemAllocPitch_v2(&pointer, &pitch, 10, 3, 4), kOutOfMemory);
  EXPECT_EQ(gate.held, driver.Held());
  EXPECT_EQ(cuMemAllocPitch_v2(&pointer, &pitch, ~size_t{0}, 3, 4), kOutOfMemory) << "an overflow";
}

TEST_F(CountedMemory, OfAContextEndsWithIt) {
  CudaPointer pointer = 0;
  CudaHandle array = nullptr;
  const ArrayDescriptor texels{100, 1, 0x20, 1};
  int other = 0;
  cuMemAlloc_v2(&pointer, 10);
  cuArrayCreate_v2(&array, &texels);
  cuMemAllocAsync(&pointer, 7, nullptr);
  driver.context = &other;
  cuMemAlloc_v2(&pointer, 5);
  EXPECT_EQ(gate.held, 422U);
  driver.fails = true;
  cuCtxDestroy_v2(&FakeDriver::own_context);
  EXPECT_EQ(gate.held, 422U) << "the driver has refused";
  driver.fails = false;
  cuCtxDestroy_v2(&FakeDriver::own_context);
  EXPECT_EQ(gate.held, 12U) << "memory of a pool and of another context";
}

// The driver may give the handle to another thread, which allocates before this one has forgotten the old blocks.
TEST(AllocationsOfAContext, DoNotIncludeThoseOfTheNextContextWithItsHandle) {
  Allocations held;
  int place = 0;
  const CudaHandle context = &place;
  held.Add({.handle = 1, .bytes = 10, .context = context});
  const std::uint64_t before = held.Next();
  held.Add({.handle = 2, .bytes = 20, .context = context});
  const auto ended = held.TakeOf(context, before);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].bytes, 10U);
  EXPECT_EQ(held.Take(Allocations::Kind::kMemory, 2).bytes, 20U);
}

TEST_F(CountedMemory, OfAPrimaryContextEndsWhenItIsReleasedForTheLastTimeOrReset) {
  CudaPointer pointer = 0;
  CudaHandle context = nullptr;
  cuDevicePrimaryCtxRetain(&context, 0);
  cuMemAlloc_v2(&pointer, 10);
  cuDevicePrimaryCtxRelease_v2(0);
  EXPECT_EQ(gate.held, 10U) << "it is still active";
  driver.active = false;
  cuDevicePrimaryCtxRelease_v2(0);
  EXPECT_EQ(gate.held, 0U);
  driver.active = true;
  cuMemAlloc_v2(&pointer, 10);
  cuMemAllocAsync(&pointer, 7, nullptr);
  cuDevicePrimaryCtxReset_v2(0);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(CountedMemory, OfAGraphAndOfTheHostDoesNotCount) {
  CudaPointer pointer = 0;
  unsigned long long handle = 0;
  driver.captures = true;
  EXPECT_EQ(cuMemAllocAsync(&pointer, 10, nullptr), kSuccess);
  EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), kSuccess);
  EXPECT_EQ(cuMemCreate(&handle, 10, kOnHost, 0), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(CountedMemory, ThatIsMappedOutlivesItsHandle) {
  unsigned long long handle = 0, again = 0;
  EXPECT_EQ(cuMemCreate(&handle, 10, kOnDevice, 0), kSuccess);
  EXPECT_EQ(cuMemMap(0x1000, 0x1000, 0, handle, 0), kSuccess);
  EXPECT_EQ(cuMemRelease(handle), kSuccess);
  EXPECT_EQ(gate.held, 10U);
  EXPECT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(0x1000)), kSuccess);
  EXPECT_EQ(cuMemUnmap(0x1000, 0x1000), kSuccess);
  EXPECT_EQ(gate.held, 10U);
  EXPECT_EQ(cuMemRelease(again), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(CountedMemory, IsShownAsTheVgpusView) {
  size_t free = 0, total = 0;
  const auto shown = [&] {
    EXPECT_EQ(cuMemGetInfo_v2(&free, &total), kSuccess);
    size_t card = 0;
    EXPECT_EQ(cuDeviceTotalMem_v2(&card, 0), kSuccess);
    EXPECT_EQ(card, total);
    return std::pair(free, total);
  };
  EXPECT_EQ(shown(), std::pair(std::size_t{700}, std::size_t{1000})) << "no limit";
  gate.limit = 400;
  gate.held = 150;
  EXPECT_EQ(shown(), std::pair(std::size_t{250}, std::size_t{400}));
  gate.limit = 2000;
  EXPECT_EQ(shown(), std::pair(std::size_t{700}, std::size_t{1000})) << "more than the card has";
  gate.limit = 100;
  EXPECT_EQ(shown(), std::pair(std::size_t{0}, std::size_t{100})) << "lowered below what is held";
}

TEST(ArraySize, FollowsTheDescriptor) {
  const auto bytes = [](std::size_t w, std::size_t h, std::size_t d, int format, unsigned channels, unsigned flags,
                        unsigned levels) {
    return BytesOf(Array3dDescriptor{w, h, d, format, channels, flags}, levels);
  };
  EXPECT_EQ(bytes(10, 0, 0, 0x01, 1, 0, 1), 10U) << "one dimension of bytes";
  EXPECT_EQ(bytes(10, 3, 2, 0x20, 4, 0, 1), 10U * 3 * 2 * 16);
  EXPECT_EQ(bytes(10, 3, 2, 0x10, 2, 0, 1), 10U * 3 * 2 * 4);
  EXPECT_EQ(bytes(8, 8, 0, 0x91, 1, 0, 1), 32U) << "BC1";
  EXPECT_EQ(bytes(8, 8, 0, 0x9d, 4, 0, 1), 64U) << "BC7";
  EXPECT_EQ(bytes(8, 8, 0, 0xb0, 3, 0, 1), 96U) << "NV12";
  EXPECT_EQ(bytes(8, 8, 0, 0xc2, 4, 0, 1), 256U);
  EXPECT_EQ(bytes(8, 8, 0, 0xcb, 4, 0, 1), 512U);
  EXPECT_EQ(bytes(8, 8, 8, 0x01, 1, 0, 4), 512U + 64 + 8 + 1);
  EXPECT_EQ(bytes(8, 8, 6, 0x01, 1, 0x01, 4), 6U * (64 + 16 + 4 + 1)) << "layers are not halved";
  EXPECT_EQ(bytes(8, 8, 8, 0x01, 1, 0x40, 1), 0U) << "sparse";
  EXPECT_EQ(bytes(~std::size_t{0}, 8, 8, 0x01, 1, 0, 1), ~std::uint64_t{0}) << "an overflow";
  EXPECT_EQ(BytesOf(ArrayDescriptor{10, 4, 0x03, 2}), 320U);
}

}  // namespace

const weir_cuda_hooks* Hooks() {
  static const weir_cuda_hooks kHooks = {
      .version = WEIR_CUDA_HOOKS_VERSION,
      .before_work = nullptr,
      .after_work = nullptr,
      .report_time = nullptr,
      .claim_memory =
          [](unsigned long long bytes) {
            std::uint64_t all = 0;
            if (__builtin_add_overflow(gate.held, bytes, &all) || (gate.limit != 0 && all > gate.limit))
              return ++gate.refused, 0;
            return gate.held = all, 1;
          },
      .release_memory = [](unsigned long long bytes) { gate.held -= bytes; },
      .used_memory =
          [](weir_cuda_memory* use) {
            *use = {gate.limit, gate.held};
          }};
  return &kHooks;
}

bool IsCapturing(CudaHandle /*handle*/, bool /*per_thread_default*/) { return driver.captures; }

}  // namespace weir::shim::cuda
