// SPDX-License-Identifier: Apache-2.0
// What is claimed and released for the program's allocations, on a driver that keeps books of its own.
#include <rapidcheck.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/harness/counted_memory.h"

namespace weir::shim::cuda {

void* weir_cuda_driver[kFunctions];

namespace {

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

TEST_F(CountedMemory, OfAContextEndsWithItsLastUser) {
  CudaPointer pointer = 0;
  CudaHandle context = nullptr;
  cuMemAlloc_v2(&pointer, 10);
  EXPECT_EQ(cuCtxAttach(&context, 0), kSuccess);
  EXPECT_EQ(cuCtxDetach(context), kSuccess);
  EXPECT_EQ(gate.held, 10U) << "it has another user";
  driver.fails = true;
  EXPECT_EQ(cuCtxDetach(context), kRefuses);
  EXPECT_EQ(gate.held, 10U) << "the driver has refused";
  driver.fails = false;
  EXPECT_EQ(cuCtxDetach(context), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(CountedMemory, OfAContextThatIsDestroyedHasNoUsers) {
  CudaPointer pointer = 0;
  CudaHandle context = nullptr;
  cuMemAlloc_v2(&pointer, 10);
  EXPECT_EQ(cuCtxAttach(&context, 0), kSuccess);
  EXPECT_EQ(cuCtxDestroy_v2(context), kSuccess);
  EXPECT_EQ(gate.held, 0U);
  cuMemAlloc_v2(&pointer, 10);  // in the next context, which has the same handle
  EXPECT_EQ(cuCtxDetach(context), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(CountedMemory, OfAGreenContextIsThatOfItsPrimaryContext) {
  CudaPointer pointer = 0;
  CudaHandle green = nullptr;
  driver.context = &FakeDriver::own_primary;
  EXPECT_EQ(cuGreenCtxCreate(&green, nullptr, 0, 1), kSuccess);
  driver.context = &FakeDriver::own_green;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 10), kSuccess);
  EXPECT_EQ(gate.held, 10U);
  driver.fails = true;
  driver.active = false;
  EXPECT_EQ(cuGreenCtxDestroy(green), kRefuses);
  EXPECT_EQ(gate.held, 10U) << "the driver has refused";
  driver.fails = false;
  driver.active = true;
  EXPECT_EQ(cuGreenCtxDestroy(green), kSuccess);
  EXPECT_EQ(gate.held, 10U) << "the program has retained the primary context";
  driver.context = &FakeDriver::own_primary;
  EXPECT_EQ(cuGreenCtxCreate(&green, nullptr, 0, 1), kSuccess);
  driver.active = false;
  EXPECT_EQ(cuGreenCtxDestroy(green), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

// The driver may give another context the handle of one that has ended.
TEST_F(CountedMemory, OfAContextIsNotThatOfAPrimaryOneThatHasEnded) {
  CudaPointer pointer = 0;
  CudaHandle context = nullptr;
  cuDevicePrimaryCtxRetain(&context, 0);
  driver.active = false;
  cuDevicePrimaryCtxRelease_v2(0);
  cuMemAlloc_v2(&pointer, 10);
  cuDevicePrimaryCtxReset_v2(0);
  EXPECT_EQ(gate.held, 10U);
  cuDevicePrimaryCtxRetain(&context, 1);
  cuDevicePrimaryCtxReset_v2(1);
  EXPECT_EQ(gate.held, 0U);
  cuMemAlloc_v2(&pointer, 10);
  cuDevicePrimaryCtxReset_v2(1);
  EXPECT_EQ(gate.held, 10U);
}

TEST_F(CountedMemory, OfAContextIsNotThatOfAGreenOneThatHasEndedWithItsDevice) {
  CudaPointer pointer = 0;
  CudaHandle green = nullptr;
  EXPECT_EQ(cuGreenCtxCreate(&green, nullptr, 0, 1), kSuccess);
  cuDevicePrimaryCtxReset_v2(0);
  driver.context = &FakeDriver::own_green;
  cuMemAlloc_v2(&pointer, 10);
  EXPECT_EQ(cuCtxDestroy_v2(driver.context), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

// cudaDeviceReset does not free it.
TEST_F(CountedMemory, OfPoolsLastsUntilItIsFreed) {
  CudaPointer plain = 0, of_pool = 0;
  CudaHandle context = nullptr, pool = nullptr;
  cuDevicePrimaryCtxRetain(&context, 0);
  EXPECT_EQ(cuMemAllocAsync(&plain, 10, nullptr), kSuccess);
  EXPECT_EQ(cuMemPoolCreate(&pool, kOnDevice), kSuccess);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&of_pool, 7, pool, nullptr), kSuccess);
  cuDevicePrimaryCtxReset_v2(0);
  EXPECT_EQ(gate.held, 17U);
  EXPECT_EQ(cuMemFreeAsync(plain, nullptr), kSuccess);
  EXPECT_EQ(gate.held, 7U);
  EXPECT_EQ(cuMemFree_v2(of_pool), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(CountedMemory, OfAPoolOnTheHostDoesNotCount) {
  CudaPointer pointer = 0;
  CudaHandle pool = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&pool, kOnHost), kSuccess);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&pointer, 10, pool, nullptr), kSuccess);
  EXPECT_EQ(gate.held, 0U);
  EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), kSuccess);
  // The next pool has the same handle.
  EXPECT_EQ(cuMemPoolCreate(&pool, kOnDevice), kSuccess);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&pointer, 10, pool, nullptr), kSuccess);
  EXPECT_EQ(gate.held, 10U);
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
  cuDevicePrimaryCtxRetain(&context, 0);
  cuMemAlloc_v2(&pointer, 10);
  cuMemAllocAsync(&pointer, 7, nullptr);
  cuDevicePrimaryCtxReset_v2(0);
  EXPECT_EQ(gate.held, 7U) << "memory of a pool";
}

TEST_F(CountedMemory, ThatIsRecordedOrOfTheHostDoesNotCount) {
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
      .charges = nullptr,
      .settle = nullptr,
      .use_devices = nullptr,
      .claim_memory =
          [](unsigned long long bytes) {
            if (gate.claiming) gate.claiming();
            std::uint64_t all = 0;
            if (__builtin_add_overflow(gate.held, bytes, &all) || (gate.limit != 0 && all > gate.limit))
              return ++gate.refused, 0;
            return gate.held = all, 1;
          },
      .release_memory = [](unsigned long long bytes) { gate.held -= bytes; },
      .used_memory =
          [](weir_shim_memory* use) {
            *use = {gate.limit, gate.held};
          }};
  return &kHooks;
}

bool DriverHas(Function function) { return weir_cuda_driver[function] != nullptr; }
void ForgetStream(const StreamKey& /*key*/) {}
void ForgetContext(CudaHandle /*context*/) {}
void Settle(CudaHandle /*context*/, Reading /*reading*/) {}
StreamKey KeyOf(CudaHandle handle, bool /*per_thread_default*/) {
  return {.context = driver.context, .handle = handle};
}
bool IsCapturing(CudaHandle /*handle*/, bool /*per_thread_default*/) { return driver.captures; }

}  // namespace weir::shim::cuda
