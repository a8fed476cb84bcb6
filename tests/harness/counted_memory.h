// SPDX-License-Identifier: Apache-2.0
// For tests of memory that is counted: a driver that keeps books of its own, and a vGPU.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <set>
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
CudaResult cuCtxAttach(CudaHandle*, unsigned);
CudaResult cuCtxDetach(CudaHandle);
CudaResult cuGreenCtxCreate(CudaHandle*, CudaHandle, int, unsigned);
CudaResult cuGreenCtxDestroy(CudaHandle);
CudaResult cuMemPoolCreate(CudaHandle*, const void*);
CudaResult cuMemAllocFromPoolAsync(CudaPointer*, size_t, CudaHandle, CudaHandle);
CudaResult cuDevicePrimaryCtxRetain(CudaHandle*, int);
CudaResult cuDevicePrimaryCtxRelease_v2(int);
CudaResult cuDevicePrimaryCtxReset_v2(int);
CudaResult cuMemGetInfo_v2(size_t*, size_t*);
CudaResult cuDeviceTotalMem_v2(size_t*, int);
}
// NOLINTEND(readability-identifier-naming)

namespace weir::shim::cuda {

inline constexpr CudaResult kRefuses = 999;

/// The vGPU: what is claimed, and the limit.
struct FakeGate {
  std::uint64_t held = 0, limit = 0;
  int refused = 0;
  std::function<void()> claiming;  // what happens during a claim
};
inline FakeGate gate;

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
  static inline int own_primary = 0, own_green = 0;
  unsigned users = 1;  // of `context`
  int pool = 0;        // its address is the handle of each pool
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
inline FakeDriver driver;

template <typename Type>
void SetCall(Function function, Type* code) {
  weir_cuda_driver[function] = reinterpret_cast<void*>(code);
}

inline constexpr int kOnDevice[] = {1, 0, 1, 0}, kOnHost[] = {1, 0, 2, 0};

/// The driver's calls for blocks, arrays and pools: what has one address or handle, from its beginning to its end.
inline void SetBlockCalls() {
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
      kCall_cuMemPoolCreate, +[](CudaHandle* pool, const void*) { return *pool = &driver.pool, kSuccess; });
  SetCall(
      kCall_cuMemAllocFromPoolAsync, +[](CudaPointer* pointer, size_t bytes, CudaHandle, CudaHandle) {
        return Driver<CudaResult(CudaPointer*, size_t, CudaHandle)>(kCall_cuMemAllocAsync)(pointer, bytes, nullptr);
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
}

/// The driver's calls for physical memory, and the addresses that it is mapped to.
inline void SetPhysicalCalls() {
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
}

/// The driver's calls for contexts, and what the device says of itself.
inline void SetContextCalls() {
  SetCall(
      kCall_cuCtxGetCurrent, +[](CudaHandle* context) { return *context = driver.context, kSuccess; });
  SetCall(
      kCall_cuCtxAttach, +[](CudaHandle* context, unsigned) {
        ++driver.users;
        return *context = driver.context, kSuccess;
      });
  SetCall(
      kCall_cuCtxDetach, +[](CudaHandle) {
        if (driver.fails || driver.users == 0) return kRefuses;
        --driver.users;
        return kSuccess;
      });
  SetCall(
      kCall_cuGreenCtxCreate,
      +[](CudaHandle* green, CudaHandle, int, unsigned) { return *green = &driver.active, kSuccess; });
  SetCall(
      kCall_cuCtxFromGreenCtx,
      +[](CudaHandle* context, CudaHandle) { return *context = &FakeDriver::own_green, kSuccess; });
  SetCall(
      kCall_cuGreenCtxDestroy, +[](CudaHandle) { return driver.fails ? kRefuses : kSuccess; });
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
}

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
    SetBlockCalls();
    SetPhysicalCalls();
    SetContextCalls();
    return true;
  }();
};

}  // namespace weir::shim::cuda
