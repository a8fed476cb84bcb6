// SPDX-License-Identifier: Apache-2.0
// The functions that allocate and free device memory, and those that say how much there is. Memory is claimed from the
// vGPU before the driver is asked for it. A claim that the limit refuses fails as the driver's own lack of memory does.
// What a call in a stream that captures allocates is a node of a graph, and is not counted.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "shim/cuda/allocations.h"
#include "shim/cuda/array_size.h"
#include "shim/cuda/not_cancelled.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {
namespace {

using Kind = Allocations::Kind;

std::atomic<Allocations*> held_instance{nullptr};

/// Never destroyed, because threads of the program may allocate while the program exits. A child of a fork begins with
/// none: the driver knows nothing there, and the state of the lock is unknown.
Allocations& Held() {
  static const bool kForgotten =
      ::pthread_atfork(nullptr, nullptr, [] { held_instance.store(nullptr, std::memory_order_relaxed); }) == 0;
  static_cast<void>(kForgotten);
  Allocations* held = held_instance.load(std::memory_order_acquire);
  if (held != nullptr) return *held;
  auto* made = new Allocations;
  if (held_instance.compare_exchange_strong(held, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *held;
}

/// Runs code of Weir's in a thread of the program. Lack of host memory there does not end the program; the memory in
/// question is then not counted.
template <typename Body>
void Aside(Body body) noexcept {
  const int error_number = errno;
  const NotCancelled not_cancelled;
  try {
    body();
  } catch (...) {
  }
  errno = error_number;
}

void Release(std::uint64_t bytes) {
  if (bytes > 0) Hooks()->release_memory(bytes);
}

CudaHandle CurrentContext() {
  CudaHandle context = nullptr;
  return Driver<CudaResult(CudaHandle*)>(kCall_cuCtxGetCurrent)(&context) == kSuccess ? context : nullptr;
}

/// Memory that a call of the program is going to allocate.
class Claim {
 public:
  explicit Claim(std::uint64_t bytes) { granted_ = Take(bytes); }
  ~Claim() {
    if (bytes_ > 0) Aside([this] { Release(bytes_); });
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  [[nodiscard]] bool granted() const { return granted_; }
  /// Changes the claim to what the driver has taken. False: the limit has no room for it.
  bool Become(std::uint64_t bytes) {
    if (bytes > bytes_) return Take(bytes - bytes_);
    Aside([&] { Release(std::exchange(bytes_, bytes) - bytes); });
    return true;
  }
  /// The driver has allocated: the claim lasts until the block ends.
  void Keep(Kind kind, std::uint64_t handle, CudaHandle context) {
    if (bytes_ == 0) return;
    Aside([&] {
      const std::uint64_t before = Held().Add({.kind = kind, .handle = handle, .bytes = bytes_, .context = context});
      bytes_ = before;
    });
  }
  void KeepPhysical(std::uint64_t handle) {
    if (bytes_ > 0) Aside([&] { bytes_ = Held().AddPhysical(handle, bytes_); });
  }

 private:
  bool Take(std::uint64_t bytes) {
    bool granted = true;
    Aside([&] {
      if (bytes == 0 || Hooks() == nullptr) return;
      granted = Hooks()->claim_memory(bytes) != 0;
      if (granted) bytes_ += bytes;
    });
    return granted;
  }

  std::uint64_t bytes_ = 0;  // claimed, and held by no block
  bool granted_ = false;
};

std::uint64_t NumberOf(CudaPointer pointer) { return pointer; }
std::uint64_t NumberOf(CudaHandle handle) { return reinterpret_cast<std::uint64_t>(handle); }

/// An allocation whose size is known before.
template <typename Handle, typename Call>
CudaResult Allocate(Kind kind, std::uint64_t bytes, const Handle* handle, Call call) {
  Claim claim(bytes);
  if (!claim.granted()) return kOutOfMemory;
  const CudaResult result = call();
  if (result == kSuccess) claim.Keep(kind, NumberOf(*handle), CurrentContext());
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

/// The same, from a pool and in the order of a stream. `call` allocates.
template <typename Call>
CudaResult AllocateFromPool(std::uint64_t bytes, const CudaPointer* pointer, CudaHandle stream, bool per_thread,
                            Call call) {
  const bool captured = IsCapturing(stream, per_thread);
  Claim claim(captured ? 0 : bytes);
  if (!claim.granted()) return kOutOfMemory;
  const CudaResult result = call();
  if (result == kSuccess) claim.Keep(Kind::kMemory, *pointer, nullptr);
  return result;
}

template <typename Call>
CudaResult FreeToPool(CudaPointer pointer, CudaHandle stream, bool per_thread, Call call) {
  return IsCapturing(stream, per_thread) ? call() : Free(Kind::kMemory, pointer, call);
}

/// The blocks of a context that the driver has ended. `before`: Next() before the driver was asked to.
void EndContext(CudaHandle context, std::uint64_t before) {
  std::uint64_t bytes = 0;
  for (const Allocations::Block& block : Held().TakeOf(context, before)) bytes += block.bytes;
  Release(bytes);
}

std::uint64_t NextBlock() {
  std::uint64_t next = 0;
  Aside([&] { next = Held().Next(); });
  return next;
}

/// Primary contexts by device, as the program has got them.
std::array<std::atomic<CudaHandle>, 64> primary_contexts{};

std::atomic<CudaHandle>* PrimaryOf(int device) {
  return device >= 0 && static_cast<std::size_t>(device) < primary_contexts.size()
             ? &primary_contexts[static_cast<std::size_t>(device)]
             : nullptr;
}

bool IsActive(int device) {
  unsigned flags = 0;
  int active = 0;
  return Driver<CudaResult(int, unsigned*, int*)>(kCall_cuDevicePrimaryCtxGetState)(device, &flags, &active) !=
             kSuccess ||
         active != 0;
}

/// After a call that may have ended a device's primary context. `reset`: it has, and the device's pools with it.
void PrimaryEnded(int device, bool reset, std::uint64_t before) {
  std::atomic<CudaHandle>* const primary = PrimaryOf(device);
  const CudaHandle context = primary != nullptr ? primary->load() : nullptr;
  if (context == nullptr || (!reset && IsActive(device))) return;
  Aside([&] {
    EndContext(context, before);
    if (reset) EndContext(nullptr, before);
  });
}

std::uint64_t Saturated(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

weir_cuda_memory UsedMemory() {
  weir_cuda_memory use{};
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
  claim.Keep(Kind::kMemory, *pointer, CurrentContext());
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
    return AllocateFromPool(bytes, pointer, stream, per_thread, [&] {                                               \
      return Driver<CudaResult(CudaPointer*, size_t, CudaHandle)>(kCall_cuMemAllocAsync##name)(pointer, bytes,      \
                                                                                               stream);             \
    });                                                                                                             \
  }                                                                                                                 \
  WEIR_EXPORT CudaResult cuMemAllocFromPoolAsync##name(CudaPointer* pointer, size_t bytes, CudaHandle pool,         \
                                                       CudaHandle stream) {                                         \
    return AllocateFromPool(bytes, pointer, stream, per_thread, [&] {                                               \
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

// -- Contexts --------------------------------------------------------------------------------------------------------

#define WEIR_DESTROY(name)                                                                     \
  WEIR_EXPORT CudaResult name(CudaHandle context) {                                            \
    const std::uint64_t before = NextBlock();                                                  \
    const CudaResult result = Driver<CudaResult(CudaHandle)>(kCall_##name)(context);           \
    if (result == kSuccess && context != nullptr) Aside([&] { EndContext(context, before); }); \
    return result;                                                                             \
  }
WEIR_DESTROY(cuCtxDestroy)
WEIR_DESTROY(cuCtxDestroy_v2)

WEIR_EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaHandle* context, int device) {
  const CudaResult result = Driver<CudaResult(CudaHandle*, int)>(kCall_cuDevicePrimaryCtxRetain)(context, device);
  if (result != kSuccess) return result;
  if (std::atomic<CudaHandle>* const primary = PrimaryOf(device)) primary->store(*context);
  return result;
}

#define WEIR_END_PRIMARY(name, reset)                                        \
  WEIR_EXPORT CudaResult name(int device) {                                  \
    const std::uint64_t before = NextBlock();                                \
    const CudaResult result = Driver<CudaResult(int)>(kCall_##name)(device); \
    if (result == kSuccess) PrimaryEnded(device, reset, before);             \
    return result;                                                           \
  }
WEIR_END_PRIMARY(cuDevicePrimaryCtxRelease, false)
WEIR_END_PRIMARY(cuDevicePrimaryCtxRelease_v2, false)
WEIR_END_PRIMARY(cuDevicePrimaryCtxReset, true)
WEIR_END_PRIMARY(cuDevicePrimaryCtxReset_v2, true)

// -- How much there is -----------------------------------------------------------------------------------------------

WEIR_EXPORT CudaResult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const CudaResult result = Driver<CudaResult(size_t*, size_t*)>(kCall_cuMemGetInfo_v2)(free, total);
  if (result != kSuccess) return result;
  const weir_cuda_memory use = UsedMemory();
  if (use.limit == 0) return result;
  *total = std::min<size_t>(*total, use.limit);
  *free = std::min<size_t>(*free, use.limit - std::min(use.limit, use.held));
  return result;
}

WEIR_EXPORT CudaResult cuDeviceTotalMem_v2(size_t* bytes, int device) {
  const CudaResult result = Driver<CudaResult(size_t*, int)>(kCall_cuDeviceTotalMem_v2)(bytes, device);
  if (result != kSuccess) return result;
  const weir_cuda_memory use = UsedMemory();
  if (use.limit != 0) *bytes = std::min<size_t>(*bytes, use.limit);
  return result;
}
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
