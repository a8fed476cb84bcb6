// SPDX-License-Identifier: Apache-2.0
// Functions of the API: memory, copies and memsets. Memory of a device is memory of the process that the emulator
// counts. The variants whose names end in _ptds or _ptsz take a null stream as the thread's default stream.
#include <cstdlib>
#include <cstring>

#include "emulator/account_reader.h"
#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

using weir::core::EngineKind;

void* At(Pointer pointer) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer)); }

Operation CopyOf(const Work& work, void* to, const void* from, std::size_t bytes) {
  return {.work = work, .compute = [=] { std::memmove(to, from, bytes); }};
}

Result HtoD(Pointer to, const void* from, std::size_t bytes, Where where, bool wait) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (bytes == 0) return kSuccess;
    if (from == nullptr || !driver.Holds(to, bytes)) return kInvalidValue;
    return driver.Do(stream, CopyOf(weir::emulator::cl::CopyWork(EngineKind::kCopyIn, bytes), At(to), from, bytes),
                     wait);
  });
}

Result DtoH(void* to, Pointer from, std::size_t bytes, Where where, bool wait) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (bytes == 0) return kSuccess;
    if (to == nullptr || !driver.Holds(from, bytes)) return kInvalidValue;
    return driver.Do(stream, CopyOf(weir::emulator::cl::CopyWork(EngineKind::kCopyOut, bytes), to, At(from), bytes),
                     wait);
  });
}

/// The host does not wait for copies within a device, as with NVIDIA's driver.
Result DtoD(Pointer to, Pointer from, std::size_t bytes, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (bytes == 0) return kSuccess;
    if (!driver.Holds(to, bytes) || !driver.Holds(from, bytes)) return kInvalidValue;
    return driver.Do(stream, CopyOf(driver.CostOf("cuMemcpyDtoD", bytes).work, At(to), At(from), bytes));
  });
}

/// The host does not wait for memsets either.
template <typename Value>
Result Set(const char* name, Pointer to, Value value, std::size_t count, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (count == 0) return kSuccess;
    if (count > ~std::size_t{0} / sizeof value || to % sizeof value != 0 || !driver.Holds(to, count * sizeof value))
      return kInvalidValue;
    auto* first = static_cast<Value*>(At(to));
    return driver.Do(stream, {.work = driver.CostOf(name, count * sizeof value).work,
                              .compute = [=] { std::fill_n(first, count, value); }});
  });
}

/// Memory of the device that processes use, by the emulator's account; without it, what this process uses.
std::uint64_t UsedOf(std::uint32_t number, std::uint64_t own) {
  const char* socket = std::getenv("WEIR_EMULATOR_SOCKET");
  if (socket == nullptr) return own;
  auto reader = weir::emulator::AccountReader::Connect(socket, "cuda");
  if (!reader) return own;
  const auto use = reader->Read(number);
  return use ? use->memory_used.count : own;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are NVIDIA's
WEIR_EXPORT Result cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (pointer == nullptr || bytes == 0) return kInvalidValue;
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    }
    return driver.Allocate(context, Driver::Kind::kMemory, bytes, *pointer);
  });
}

WEIR_EXPORT Result cuMemFree_v2(Pointer pointer) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (pointer == 0) return kSuccess;
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    }
    return driver.Free(context, Driver::Kind::kMemory, pointer);
  });
}

WEIR_EXPORT Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (free == nullptr || total == nullptr) return kInvalidValue;
    auto lock = driver.Lock();
    const Driver::Card& card = driver.cards[context->device];
    const std::uint32_t number = card.number;
    const std::uint64_t own = card.used;
    *total = card.model.memory.count;
    lock.unlock();
    const std::uint64_t used = UsedOf(number, own);
    *free = *total - std::min<std::uint64_t>(*total, used);
    return kSuccess;
  });
}

/// The kind of memory of an address, and its device.
WEIR_EXPORT Result cuPointerGetAttribute(void* value, int attribute, Pointer pointer) {
  constexpr int kMemoryType = 2, kDeviceOrdinal = 9, kOnHost = 1, kOnDevice = 2;
  return Call([&](Driver& driver) {
    int card = 0;
    if (value == nullptr || !driver.Find(pointer, card)) return kInvalidValue;
    if (attribute != kMemoryType && attribute != kDeviceOrdinal) return kNotSupported;
    const bool on_host = card == Pool::kHost;
    *static_cast<int*>(value) = attribute == kMemoryType ? (on_host ? kOnHost : kOnDevice) : on_host ? -1 : card;
    return kSuccess;
  });
}

WEIR_EXPORT Result cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (memory == nullptr || bytes == 0) return kInvalidValue;
    auto made = std::make_unique_for_overwrite<std::byte[]>(bytes);
    const auto lock = driver.Lock();
    if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    if (driver.host_memory.size() >= Registry<Event>::kMost) return kOutOfMemory;
    *memory = made.get();
    driver.host_memory[*memory] = std::move(made);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuMemFreeHost(void* memory) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto lock = driver.Lock();
    if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    return driver.host_memory.erase(memory) == 0 ? kInvalidValue : kSuccess;
  });
}

#define WEIR_SYNC(name, parameters, legacy_call, per_thread_call) \
  WEIR_EXPORT Result name parameters { return legacy_call; }      \
  WEIR_EXPORT Result name##_ptds parameters { return per_thread_call; }
#define WEIR_ASYNC(name, parameters, legacy_call, per_thread_call) \
  WEIR_EXPORT Result name parameters { return legacy_call; }       \
  WEIR_EXPORT Result name##_ptsz parameters { return per_thread_call; }

WEIR_SYNC(cuMemcpyHtoD_v2, (Pointer to, const void* from, std::size_t bytes),
          HtoD(to, from, bytes, {nullptr, false}, true), HtoD(to, from, bytes, {nullptr, true}, true))
WEIR_SYNC(cuMemcpyDtoH_v2, (void* to, Pointer from, std::size_t bytes), DtoH(to, from, bytes, {nullptr, false}, true),
          DtoH(to, from, bytes, {nullptr, true}, true))
WEIR_SYNC(cuMemcpyDtoD_v2, (Pointer to, Pointer from, std::size_t bytes), DtoD(to, from, bytes, {nullptr, false}),
          DtoD(to, from, bytes, {nullptr, true}))
WEIR_ASYNC(cuMemcpyHtoDAsync_v2, (Pointer to, const void* from, std::size_t bytes, Handle stream),
           HtoD(to, from, bytes, {stream, false}, false), HtoD(to, from, bytes, {stream, true}, false))
WEIR_ASYNC(cuMemcpyDtoHAsync_v2, (void* to, Pointer from, std::size_t bytes, Handle stream),
           DtoH(to, from, bytes, {stream, false}, false), DtoH(to, from, bytes, {stream, true}, false))
WEIR_ASYNC(cuMemcpyDtoDAsync_v2, (Pointer to, Pointer from, std::size_t bytes, Handle stream),
           DtoD(to, from, bytes, {stream, false}), DtoD(to, from, bytes, {stream, true}))
WEIR_SYNC(cuMemsetD8_v2, (Pointer to, unsigned char value, std::size_t count),
          Set("cuMemsetD8", to, value, count, {nullptr, false}), Set("cuMemsetD8", to, value, count, {nullptr, true}))
WEIR_SYNC(cuMemsetD32_v2, (Pointer to, unsigned value, std::size_t count),
          Set("cuMemsetD32", to, value, count, {nullptr, false}), Set("cuMemsetD32", to, value, count, {nullptr, true}))
WEIR_ASYNC(cuMemsetD32Async, (Pointer to, unsigned value, std::size_t count, Handle stream),
           Set("cuMemsetD32", to, value, count, {stream, false}), Set("cuMemsetD32", to, value, count, {stream, true}))
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
