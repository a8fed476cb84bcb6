// SPDX-License-Identifier: Apache-2.0
// Functions of the API: memory with a pitch, managed memory, and memory of pools. An allocation from a pool takes
// effect in the call, not in the stream's order; a stream that captures refuses it.
#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

/// CUmemPoolProps, its first members.
struct PoolProperties {
  int type, handle_types, location_type, location;
};

/// Requires the lock. Null: there are too many pools.
std::shared_ptr<Pool> DefaultPool(Driver& driver, std::uint32_t card) {
  std::shared_ptr<Pool>& pool = driver.cards[card].pool;
  if (pool == nullptr) {
    auto made = std::make_shared<Pool>(Pool{card});
    if (driver.pools.Add(made) != nullptr) pool = std::move(made);
  }
  return pool;
}

/// `handle`: of the pool; null: the default pool of the stream's device.
Result AllocateIn(Pointer* pointer, std::size_t bytes, const Handle* handle, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (pointer == nullptr || bytes == 0) return kInvalidValue;
    const std::uint32_t card = stream->context->device;
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.RefuseIfCapturing(*stream); error != kSuccess) return error;
      const std::shared_ptr<Pool> pool = handle == nullptr ? DefaultPool(driver, card) : driver.pools.Find(*handle);
      if (pool == nullptr) return handle == nullptr ? kOutOfMemory : kInvalidValue;
      if (pool->device != card) return kNotSupported;
    }
    return driver.Allocate(stream->context, Driver::Kind::kPooled, bytes, *pointer);
  });
}

Result FreeIn(Pointer pointer, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.RefuseIfCapturing(*stream); error != kSuccess) return error;
    }
    return driver.Free(stream->context, Driver::Kind::kPooled, pointer);
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are NVIDIA's
WEIR_EXPORT Result cuMemAllocManaged(Pointer* pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned kGlobally = 1, kByTheHost = 2;
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (pointer == nullptr || bytes == 0 || (flags != kGlobally && flags != kByTheHost)) return kInvalidValue;
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    }
    return driver.Allocate(context, Driver::Kind::kMemory, bytes, *pointer);
  });
}

WEIR_EXPORT Result cuMemAllocPitch_v2(Pointer* pointer, std::size_t* pitch, std::size_t width, std::size_t height,
                                      unsigned element) {
  constexpr std::size_t kPitch = 512, kMost = 1ULL << 31;
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (pointer == nullptr || pitch == nullptr || (element != 4 && element != 8 && element != 16)) return kInvalidValue;
    if (width == 0 || height == 0 || width > kMost || height > kMost) return kInvalidValue;
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    }
    *pitch = (width + kPitch - 1) / kPitch * kPitch;
    return driver.Allocate(context, Driver::Kind::kMemory, *pitch * height, *pointer);
  });
}

WEIR_EXPORT Result cuDeviceGetDefaultMemPool(Handle* pool, Device device) {
  return Call([&](Driver& driver) {
    if (pool == nullptr) return kInvalidValue;
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    const auto lock = driver.Lock();
    *pool = DefaultPool(driver, static_cast<std::uint32_t>(device)).get();
    return *pool == nullptr ? kOutOfMemory : kSuccess;
  });
}

WEIR_EXPORT Result cuMemPoolCreate(Handle* pool, const PoolProperties* properties) {
  constexpr int kOnDevice = 1;
  return Call([&](Driver& driver) {
    if (pool == nullptr || properties == nullptr || properties->type != 1) return kInvalidValue;
    if (properties->location_type != kOnDevice) return kNotSupported;
    if (properties->location < 0 || static_cast<std::size_t>(properties->location) >= driver.cards.size())
      return kInvalidDevice;
    const auto lock = driver.Lock();
    *pool = driver.pools.Add(std::make_shared<Pool>(Pool{static_cast<std::uint32_t>(properties->location)}));
    return *pool == nullptr ? kOutOfMemory : kSuccess;
  });
}

/// Memory that is allocated from the pool stays valid.
WEIR_EXPORT Result cuMemPoolDestroy(Handle pool) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    for (const Driver::Card& card : driver.cards)
      if (card.pool.get() == pool) return kInvalidValue;  // a default pool
    return driver.pools.Remove(pool) == nullptr ? kInvalidValue : kSuccess;
  });
}

#define WEIR_BOTH(name, parameters, legacy_call, per_thread_call) \
  WEIR_EXPORT Result name parameters { return legacy_call; }      \
  WEIR_EXPORT Result name##_ptsz parameters { return per_thread_call; }
WEIR_BOTH(cuMemAllocAsync, (Pointer * pointer, std::size_t bytes, Handle stream),
          AllocateIn(pointer, bytes, nullptr, {stream, false}), AllocateIn(pointer, bytes, nullptr, {stream, true}))
WEIR_BOTH(cuMemAllocFromPoolAsync, (Pointer * pointer, std::size_t bytes, Handle pool, Handle stream),
          AllocateIn(pointer, bytes, &pool, {stream, false}), AllocateIn(pointer, bytes, &pool, {stream, true}))
WEIR_BOTH(cuMemFreeAsync, (Pointer pointer, Handle stream), FreeIn(pointer, {stream, false}),
          FreeIn(pointer, {stream, true}))
#undef WEIR_BOTH
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
