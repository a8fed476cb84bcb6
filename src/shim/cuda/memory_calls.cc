// SPDX-License-Identifier: Apache-2.0
// The functions that allocate and free device memory, and those that say how much there is. What a call in a stream
// that captures allocates is a node of a graph, and counts when the graph is launched (graph_memory.h).
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "shim/cuda/array_size.h"
#include "shim/cuda/claims.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/pools.h"

namespace weir::shim::cuda {
namespace {

using Kind = Allocations::Kind;

std::uint64_t NumberOf(CudaPointer pointer) { return pointer; }
std::uint64_t NumberOf(CudaHandle handle) { return reinterpret_cast<std::uint64_t>(handle); }

/// An allocation whose size is known before.
template <typename Handle, typename Call>
CudaResult Allocate(Kind kind, std::uint64_t bytes, const Handle* handle, Call call) {
  Claim claim(bytes);
  if (!claim.granted()) return kOutOfMemory;
  const CudaResult result = call();
  if (result == kSuccess) claim.Keep({.kind = kind, .handle = NumberOf(*handle), .context = OwnerOf(CurrentContext())});
  return result;
}

/// A call that ends a block if it succeeds.
template <typename Call>
CudaResult Free(Kind kind, std::uint64_t handle, Call call) {
  Allocations::Block block;
  Aside([&] { block = Held().Take(kind, handle); });
  const CudaResult result = call();
  if (result == kSuccess)
    Aside([&] { Release(block.bytes); });
  else
    Aside([&] { Held().PutBack(block); });
  return result;
}

/// The same, from a pool and in the order of a stream. `pool`: null for the one of the stream's device. `call`
/// allocates.
template <typename Call>
CudaResult AllocateFromPool(std::uint64_t bytes, const CudaPointer* pointer, CudaHandle pool, CudaHandle stream,
                            bool per_thread, Call call) {
  const bool counts = !IsHostPool(pool) && !IsCapturing(stream, per_thread);
  Claim claim(counts ? bytes : 0);
  if (!claim.granted()) return kOutOfMemory;
  const CudaResult result = call();
  if (result == kSuccess && counts) claim.Keep({.handle = *pointer});
  return result;
}

template <typename Call>
CudaResult FreeToPool(CudaPointer pointer, CudaHandle stream, bool per_thread, Call call) {
  return IsCapturing(stream, per_thread) ? call() : Free(Kind::kMemory, pointer, call);
}

std::uint64_t Saturated(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

weir_shim_memory UsedMemory() {
  weir_shim_memory use{};
  Aside([&] {
    if (Hooks() != nullptr) Hooks()->used_memory(&use);
  });
  return use;
}

/// The first members of CUmemAllocationProp.
struct PhysicalProperties {
  int type, handle_types, location_type, location;
};

bool IsOnDevice(const PhysicalProperties* properties) {
  constexpr int kLocationDevice = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  return properties != nullptr && properties->location_type == kLocationDevice;
}

}  // namespace
}  // namespace weir::shim::cuda

using namespace weir::shim::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the driver's

// -- Memory of a context ---------------------------------------------------------------------------------------------

WEIR_EXPORT CudaResult cuMemAlloc_v2(CudaPointer* pointer, size_t bytes) {
  return Allocate(Kind::kMemory, bytes, pointer,
                  [&] { return Driver<CudaResult(CudaPointer*, size_t)>(kCall_cuMemAlloc_v2)(pointer, bytes); });
}

WEIR_EXPORT CudaResult cuMemAllocManaged(CudaPointer* pointer, size_t bytes, unsigned flags) {
  return Allocate(Kind::kMemory, bytes, pointer, [&] {
    return Driver<CudaResult(CudaPointer*, size_t, unsigned)>(kCall_cuMemAllocManaged)(pointer, bytes, flags);
  });
}

WEIR_EXPORT CudaResult cuMemAllocPitch_v2(CudaPointer* pointer, size_t* pitch, size_t width, size_t height,
                                          unsigned element) {
  constexpr std::uint64_t kPitchMultiple = 512;  // of present cards; corrected when the driver has chosen
  Claim claim(Saturated((width / kPitchMultiple + (width % kPitchMultiple != 0 ? 1 : 0)) * kPitchMultiple, height));
  if (!claim.granted()) return kOutOfMemory;
  const CudaResult result = Driver<CudaResult(CudaPointer*, size_t*, size_t, size_t, unsigned)>(
      kCall_cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
  if (result != kSuccess) return result;
  if (!claim.Become(Saturated(*pitch, height))) {
    Driver<CudaResult(CudaPointer)>(kCall_cuMemFree_v2)(*pointer);
    return kOutOfMemory;
  }
  claim.Keep({.handle = *pointer, .context = OwnerOf(CurrentContext())});
  return kSuccess;
}

WEIR_EXPORT CudaResult cuMemFree_v2(CudaPointer pointer) {
  return Free(Kind::kMemory, pointer, [&] { return Driver<CudaResult(CudaPointer)>(kCall_cuMemFree_v2)(pointer); });
}

WEIR_EXPORT CudaResult cuArrayCreate_v2(CudaHandle* array, const ArrayDescriptor* descriptor) {
  return Allocate(Kind::kArray, descriptor != nullptr ? BytesOf(*descriptor) : 0, array, [&] {
    return Driver<CudaResult(CudaHandle*, const ArrayDescriptor*)>(kCall_cuArrayCreate_v2)(array, descriptor);
  });
}

WEIR_EXPORT CudaResult cuArray3DCreate_v2(CudaHandle* array, const Array3dDescriptor* descriptor) {
  return Allocate(Kind::kArray, descriptor != nullptr ? BytesOf(*descriptor) : 0, array, [&] {
    return Driver<CudaResult(CudaHandle*, const Array3dDescriptor*)>(kCall_cuArray3DCreate_v2)(array, descriptor);
  });
}

WEIR_EXPORT CudaResult cuMipmappedArrayCreate(CudaHandle* array, const Array3dDescriptor* descriptor, unsigned levels) {
  return Allocate(Kind::kArray, descriptor != nullptr ? BytesOf(*descriptor, levels) : 0, array, [&] {
    return Driver<CudaResult(CudaHandle*, const Array3dDescriptor*, unsigned)>(kCall_cuMipmappedArrayCreate)(
        array, descriptor, levels);
  });
}

#define WEIR_END_ARRAY(name)                                                                                         \
  WEIR_EXPORT CudaResult name(CudaHandle array) {                                                                    \
    return Free(Kind::kArray, NumberOf(array), [&] { return Driver<CudaResult(CudaHandle)>(kCall_##name)(array); }); \
  }
WEIR_END_ARRAY(cuArrayDestroy)
WEIR_END_ARRAY(cuMipmappedArrayDestroy)

// -- Memory of pools -------------------------------------------------------------------------------------------------

#define WEIR_POOL(name, per_thread)                                                                                 \
  WEIR_EXPORT CudaResult cuMemAllocAsync##name(CudaPointer* pointer, size_t bytes, CudaHandle stream) {             \
    return AllocateFromPool(bytes, pointer, nullptr, stream, per_thread, [&] {                                      \
      return Driver<CudaResult(CudaPointer*, size_t, CudaHandle)>(kCall_cuMemAllocAsync##name)(pointer, bytes,      \
                                                                                               stream);             \
    });                                                                                                             \
  }                                                                                                                 \
  WEIR_EXPORT CudaResult cuMemAllocFromPoolAsync##name(CudaPointer* pointer, size_t bytes, CudaHandle pool,         \
                                                       CudaHandle stream) {                                         \
    return AllocateFromPool(bytes, pointer, pool, stream, per_thread, [&] {                                         \
      return Driver<CudaResult(CudaPointer*, size_t, CudaHandle, CudaHandle)>(kCall_cuMemAllocFromPoolAsync##name)( \
          pointer, bytes, pool, stream);                                                                            \
    });                                                                                                             \
  }                                                                                                                 \
  WEIR_EXPORT CudaResult cuMemFreeAsync##name(CudaPointer pointer, CudaHandle stream) {                             \
    return FreeToPool(pointer, stream, per_thread, [&] {                                                            \
      return Driver<CudaResult(CudaPointer, CudaHandle)>(kCall_cuMemFreeAsync##name)(pointer, stream);              \
    });                                                                                                             \
  }
WEIR_POOL(, false)
WEIR_POOL(_ptsz, true)

// -- Physical memory, which the program maps -------------------------------------------------------------------------

WEIR_EXPORT CudaResult cuMemCreate(unsigned long long* handle, size_t bytes, const void* properties,
                                   unsigned long long flags) {
  Claim claim(IsOnDevice(static_cast<const PhysicalProperties*>(properties)) ? bytes : 0);
  if (!claim.granted()) return kOutOfMemory;
  const CudaResult result = Driver<CudaResult(unsigned long long*, size_t, const void*, unsigned long long)>(
      kCall_cuMemCreate)(handle, bytes, properties, flags);
  if (result == kSuccess) claim.KeepPhysical(*handle);
  return result;
}

WEIR_EXPORT CudaResult cuMemRelease(unsigned long long handle) {
  std::shared_ptr<Allocations::Physical> physical;
  Aside([&] { physical = Held().TakeName(handle); });
  const CudaResult result = Driver<CudaResult(unsigned long long)>(kCall_cuMemRelease)(handle);
  Aside([&] {
    if (result == kSuccess)
      Release(Held().Drop(std::move(physical)));
    else
      Held().AddName(handle, std::move(physical));
  });
  return result;
}

WEIR_EXPORT CudaResult cuMemRetainAllocationHandle(unsigned long long* handle, void* address) {
  const CudaResult result =
      Driver<CudaResult(unsigned long long*, void*)>(kCall_cuMemRetainAllocationHandle)(handle, address);
  if (result == kSuccess)
    Aside([&] { Held().AddName(*handle, Held().MappedAt(reinterpret_cast<std::uint64_t>(address))); });
  return result;
}

WEIR_EXPORT CudaResult cuMemMap(CudaPointer address, size_t size, size_t offset, unsigned long long handle,
                                unsigned long long flags) {
  const CudaResult result = Driver<CudaResult(CudaPointer, size_t, size_t, unsigned long long, unsigned long long)>(
      kCall_cuMemMap)(address, size, offset, handle, flags);
  if (result == kSuccess) Aside([&] { Held().Map(address, size, handle); });
  return result;
}

WEIR_EXPORT CudaResult cuMemUnmap(CudaPointer address, size_t size) {
  std::vector<Allocations::Mapping> mappings;
  Aside([&] { mappings = Held().TakeMappings(address, size); });
  const CudaResult result = Driver<CudaResult(CudaPointer, size_t)>(kCall_cuMemUnmap)(address, size);
  Aside([&] {
    if (result != kSuccess) return Held().PutBack(std::move(mappings));
    for (Allocations::Mapping& one : mappings) Release(Held().Drop(std::move(one.physical)));
  });
  return result;
}

// -- How much there is -----------------------------------------------------------------------------------------------

WEIR_EXPORT CudaResult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const CudaResult result = Driver<CudaResult(size_t*, size_t*)>(kCall_cuMemGetInfo_v2)(free, total);
  if (result != kSuccess) return result;
  const weir_shim_memory use = UsedMemory();
  if (use.limit == 0) return result;
  *total = std::min<size_t>(*total, use.limit);
  *free = std::min<size_t>(*free, use.limit - std::min(use.limit, use.held));
  return result;
}

WEIR_EXPORT CudaResult cuDeviceTotalMem_v2(size_t* bytes, int device) {
  const CudaResult result = Driver<CudaResult(size_t*, int)>(kCall_cuDeviceTotalMem_v2)(bytes, device);
  if (result != kSuccess) return result;
  const weir_shim_memory use = UsedMemory();
  if (use.limit != 0) *bytes = std::min<size_t>(*bytes, use.limit);
  return result;
}
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
