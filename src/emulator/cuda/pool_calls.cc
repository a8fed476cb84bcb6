// SPDX-License-Identifier: Apache-2.0
// Functions of the API: memory with a pitch, managed memory, and memory of pools. An allocation from a pool takes
// effect in the call, not in the stream's order. In a stream that captures it is a node of the graph.
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
    auto made = std::make_shared<Pool>(Pool{static_cast<int>(card)});
    if (driver.pools.Add(made) != nullptr) pool = std::move(made);
  }
  return pool;
}

/// The pool of cuMemAllocAsync. Requires the lock.
std::shared_ptr<Pool> CurrentPool(Driver& driver, std::uint32_t card) {
  const std::shared_ptr<Pool>& current = driver.cards[card].current;
  return current != nullptr ? current : DefaultPool(driver, card);
}

/// Adds a node that allocates to the graph of a stream that captures. Requires the lock.
Result Record(Driver& driver, const Capture& capture, const Pool& pool, std::size_t bytes, Pointer& pointer) {
  if (pool.card == Pool::kHost) return kNotSupported;
  auto block = driver.AllocateNode(*capture.graph, bytes, static_cast<std::uint32_t>(pool.card));
  if (block == nullptr) return kOutOfMemory;
  pointer = block->pointer();
  capture.graph->operations.push_back({.allocates = std::move(block)});
  return kSuccess;
}

/// `handle`: of the pool; null: the current pool of the stream's device.
Result AllocateIn(Pointer* pointer, std::size_t bytes, const Handle* handle, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (pointer == nullptr || bytes == 0) return kInvalidValue;
    const std::uint32_t card = stream->context->device;
    std::shared_ptr<Pool> pool;
    {
      const auto lock = driver.Lock();
      pool = handle == nullptr ? CurrentPool(driver, card) : driver.pools.Find(*handle);
      if (pool == nullptr) return handle == nullptr ? kOutOfMemory : kInvalidValue;
      if (stream->capture && !stream->capture->invalid) return Record(driver, *stream->capture, *pool, bytes, *pointer);
      if (const Result error = driver.RefuseIfCapturing(*stream); error != kSuccess) return error;
    }
    return driver.AllocateAt(pool->card, stream->context, Driver::Kind::kPooled, bytes, *pointer);
  });
}

Result FreeIn(Pointer pointer, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    {
      const auto lock = driver.Lock();
      if (stream->capture && !stream->capture->invalid) {
        stream->capture->graph->operations.push_back({.frees = pointer});
        return kSuccess;
      }
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

WEIR_EXPORT Result cuDeviceGetMemPool(Handle* pool, Device device) {
  return Call([&](Driver& driver) {
    if (pool == nullptr) return kInvalidValue;
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    const auto lock = driver.Lock();
    *pool = CurrentPool(driver, static_cast<std::uint32_t>(device)).get();
    return *pool == nullptr ? kOutOfMemory : kSuccess;
  });
}

WEIR_EXPORT Result cuDeviceSetMemPool(Device device, Handle handle) {
  return Call([&](Driver& driver) {
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    const auto lock = driver.Lock();
    const std::shared_ptr<Pool> pool = driver.pools.Find(handle);
    if (pool == nullptr || pool->card != device) return kInvalidValue;
    driver.cards[static_cast<std::size_t>(device)].current = pool;
    return kSuccess;
  });
}

WEIR_EXPORT Result cuMemPoolCreate(Handle* pool, const PoolProperties* properties) {
  constexpr int kOnDevice = 1, kOnHost = 2;
  return Call([&](Driver& driver) {
    if (pool == nullptr || properties == nullptr || properties->type != 1) return kInvalidValue;
    if (properties->location_type != kOnDevice && properties->location_type != kOnHost) return kNotSupported;
    const int card = properties->location_type == kOnHost ? Pool::kHost : properties->location;
    if (card != Pool::kHost && (card < 0 || static_cast<std::size_t>(card) >= driver.cards.size()))
      return kInvalidDevice;
    const auto lock = driver.Lock();
    *pool = driver.pools.Add(std::make_shared<Pool>(Pool{card}));
    return *pool == nullptr ? kOutOfMemory : kSuccess;
  });
}

/// Memory that is allocated from the pool stays valid.
WEIR_EXPORT Result cuMemPoolDestroy(Handle pool) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    for (Driver::Card& card : driver.cards) {
      if (card.pool.get() == pool) return kInvalidValue;  // a default pool
      if (card.current.get() == pool) card.current.reset();
    }
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
