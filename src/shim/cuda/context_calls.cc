// SPDX-License-Identifier: Apache-2.0
// The functions that make and end contexts and streams. What a context held ends with it.
//
//   cuCtxCreate, cuCtxAttach ── cuCtxDetach, as often ──▶ ended       cuCtxDestroy ends it at once
//   cuDevicePrimaryCtxRetain, cuGreenCtxCreate ── releases, cuGreenCtxDestroy, as often ──▶ ended
//
// The driver counts the users of primary contexts, and is asked. It does not say how many a context of cuCtxCreate has.
// Before a context ends, its work is awaited and charged, because its events end with it.
#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "platform/mutex.h"
#include "shim/cuda/claims.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/graph_memory.h"

namespace weir::shim::cuda {
namespace {

using ContextsLock = std::lock_guard<platform::Mutex>;

/// The handle of each device's primary context. Null: the device has none.
std::array<std::atomic<CudaHandle>, 64> primary_contexts{};
/// How often the program has retained it and not released it, green contexts included.
std::array<std::atomic<int>, 64> primary_users{};

std::atomic<CudaHandle>* PrimaryOf(int device) {
  return device >= 0 && static_cast<std::size_t>(device) < primary_contexts.size()
             ? &primary_contexts[static_cast<std::size_t>(device)]
             : nullptr;
}

void CountUsers(int device, int more) {
  if (PrimaryOf(device) != nullptr)
    primary_users[static_cast<std::size_t>(device)].fetch_add(more, std::memory_order_relaxed);
}

struct Green {
  CudaHandle green = nullptr, context = nullptr;  // the same by two names
  int device = -1;
};

/// The few contexts that need a note.
struct Notes {
  platform::Mutex mutex;
  std::vector<Green> greens;
  std::vector<CudaHandle> attached;  // a context is in it as often as cuCtxAttach has returned it
};
Notes& AllNotes() { return OfProcess<Notes>::Get(); }
std::atomic<bool> any_green{false};

bool IsActive(int device) {
  unsigned flags = 0;
  int active = 0;
  return Driver<CudaResult(int, unsigned*, int*)>(kCall_cuDevicePrimaryCtxGetState)(device, &flags, &active) !=
             kSuccess ||
         active != 0;
}

/// Before the driver is asked to end a context.
void EndMeasuring(CudaHandle context) {
  if (context == nullptr) return;
  Aside([context] {
    Settle(context, {.open_batches = true, .awaits = true});
    ForgetContext(context);
  });
}

/// The same of a device's primary context, if its last user ends or `reset`.
void EndMeasuringPrimary(int device, bool reset) {
  const std::atomic<CudaHandle>* const primary = PrimaryOf(device);
  if (primary != nullptr &&
      (reset || primary_users[static_cast<std::size_t>(device)].load(std::memory_order_relaxed) <= 1))
    EndMeasuring(primary->load());
}

/// The primary context has ended, and with `reset` the device's green ones too. Their handles may be other contexts'.
void ForgetContexts(int device, CudaHandle context, bool reset) {
  if (std::atomic<CudaHandle>* const primary = PrimaryOf(device)) {
    primary->store(nullptr);
    // Another thread may have made it active again meanwhile. One that does so from now on stores its handle itself.
    CudaHandle none = nullptr;
    if (IsActive(device)) primary->compare_exchange_strong(none, context);
  }
  if (!reset || !any_green.load(std::memory_order_relaxed)) return;
  Notes& notes = AllNotes();
  const ContextsLock lock(notes.mutex);
  std::erase_if(notes.greens, [device](const Green& one) { return one.device == device; });
}

/// After a call that may have ended a device's primary context. `reset`: it has. Memory of pools stays.
void PrimaryEnded(int device, bool reset, std::uint64_t before) {
  std::atomic<CudaHandle>* const primary = PrimaryOf(device);
  const CudaHandle context = primary != nullptr ? primary->load() : nullptr;
  if (!reset && (context == nullptr || IsActive(device))) return;
  Aside([&] {
    ForgetContext(context);
    ForgetContexts(device, context, reset);
    if (context != nullptr) EndContext(context, before);
    if (reset) ForgetExecutables(device);
    CountGraphMemory(device);
  });
}

/// Learns the primary context of a device that is active.
void NotePrimary(int device) {
  std::atomic<CudaHandle>* const primary = PrimaryOf(device);
  CudaHandle context = nullptr;
  if (primary == nullptr ||
      Driver<CudaResult(CudaHandle*, int)>(kCall_cuDevicePrimaryCtxRetain)(&context, device) != kSuccess)
    return;
  primary->store(context);
  Driver<CudaResult(int)>(kCall_cuDevicePrimaryCtxRelease_v2)(device);
}

bool IsAttached(CudaHandle context) {
  bool is = false;
  Aside([&] {
    Notes& notes = AllNotes();
    const ContextsLock lock(notes.mutex);
    is = std::find(notes.attached.begin(), notes.attached.end(), context) != notes.attached.end();
  });
  return is;
}

/// Whether the context has been attached to; one such use is over now.
bool EndUse(CudaHandle context) {
  bool found = false;
  Aside([&] {
    Notes& notes = AllNotes();
    const ContextsLock lock(notes.mutex);
    const auto use = std::find(notes.attached.begin(), notes.attached.end(), context);
    found = use != notes.attached.end();
    if (found) notes.attached.erase(use);
  });
  return found;
}

/// After the driver has ended a context, whatever its number of users.
void ContextEnded(CudaHandle context, std::uint64_t before) {
  Aside([&] {
    ForgetContext(context);
    Notes& notes = AllNotes();
    {
      const ContextsLock lock(notes.mutex);
      std::erase(notes.attached, context);
    }
    EndContext(context, before);
  });
}

}  // namespace

CudaHandle OwnerOf(CudaHandle context) {
  if (context == nullptr || !any_green.load(std::memory_order_relaxed)) return context;
  CudaHandle owner = context;
  Aside([&] {
    Notes& notes = AllNotes();
    const ContextsLock lock(notes.mutex);
    for (const Green& green : notes.greens) {
      std::atomic<CudaHandle>* const primary = green.context == context ? PrimaryOf(green.device) : nullptr;
      if (const CudaHandle found = primary != nullptr ? primary->load() : nullptr) owner = found;
    }
  });
  return owner;
}

}  // namespace weir::shim::cuda

using namespace weir::shim::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the driver's

#define WEIR_DESTROY(name)                                                           \
  WEIR_EXPORT CudaResult name(CudaHandle context) {                                  \
    const std::uint64_t before = NextBlock();                                        \
    EndMeasuring(context);                                                           \
    const CudaResult result = Driver<CudaResult(CudaHandle)>(kCall_##name)(context); \
    if (result == kSuccess && context != nullptr) ContextEnded(context, before);     \
    return result;                                                                   \
  }
WEIR_DESTROY(cuCtxDestroy)
WEIR_DESTROY(cuCtxDestroy_v2)

WEIR_EXPORT CudaResult cuCtxAttach(CudaHandle* context, unsigned flags) {
  const CudaResult result = Driver<CudaResult(CudaHandle*, unsigned)>(kCall_cuCtxAttach)(context, flags);
  if (result != kSuccess) return result;
  Aside([&] {
    Notes& notes = AllNotes();
    const ContextsLock lock(notes.mutex);
    notes.attached.push_back(*context);
  });
  return result;
}

WEIR_EXPORT CudaResult cuCtxDetach(CudaHandle context) {
  const std::uint64_t before = NextBlock();
  if (!IsAttached(context)) EndMeasuring(context);
  const CudaResult result = Driver<CudaResult(CudaHandle)>(kCall_cuCtxDetach)(context);
  if (result == kSuccess && context != nullptr && !EndUse(context)) ContextEnded(context, before);
  return result;
}

WEIR_EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaHandle* context, int device) {
  const CudaResult result = Driver<CudaResult(CudaHandle*, int)>(kCall_cuDevicePrimaryCtxRetain)(context, device);
  if (result != kSuccess) return result;
  if (std::atomic<CudaHandle>* const primary = PrimaryOf(device)) primary->store(*context);
  CountUsers(device, 1);
  return result;
}

#define WEIR_END_PRIMARY(name, reset)                                        \
  WEIR_EXPORT CudaResult name(int device) {                                  \
    const std::uint64_t before = NextBlock();                                \
    EndMeasuringPrimary(device, reset);                                      \
    const CudaResult result = Driver<CudaResult(int)>(kCall_##name)(device); \
    if (result == kSuccess && !(reset)) CountUsers(device, -1);              \
    if (result == kSuccess) PrimaryEnded(device, reset, before);             \
    return result;                                                           \
  }
WEIR_END_PRIMARY(cuDevicePrimaryCtxRelease, false)
WEIR_END_PRIMARY(cuDevicePrimaryCtxRelease_v2, false)
WEIR_END_PRIMARY(cuDevicePrimaryCtxReset, true)
WEIR_END_PRIMARY(cuDevicePrimaryCtxReset_v2, true)

WEIR_EXPORT CudaResult cuGreenCtxCreate(CudaHandle* green, CudaHandle resources, int device, unsigned flags) {
  const CudaResult result = Driver<CudaResult(CudaHandle*, CudaHandle, int, unsigned)>(kCall_cuGreenCtxCreate)(
      green, resources, device, flags);
  if (result != kSuccess) return result;
  NotePrimary(device);
  CountUsers(device, 1);
  CudaHandle context = nullptr;
  if (Driver<CudaResult(CudaHandle*, CudaHandle)>(kCall_cuCtxFromGreenCtx)(&context, *green) != kSuccess)
    context = nullptr;
  Aside([&] {
    Notes& notes = AllNotes();
    const ContextsLock lock(notes.mutex);
    notes.greens.push_back({.green = *green, .context = context, .device = device});
    any_green.store(true, std::memory_order_relaxed);
  });
  return result;
}

WEIR_EXPORT CudaResult cuGreenCtxDestroy(CudaHandle green) {
  const std::uint64_t before = NextBlock();
  Green ended;
  Aside([&] {
    Notes& notes = AllNotes();
    const ContextsLock lock(notes.mutex);
    const auto one = std::find_if(notes.greens.begin(), notes.greens.end(),
                                  [&](const Green& known) { return known.green == green; });
    if (one == notes.greens.end()) return;
    ended = *one;
    notes.greens.erase(one);  // before the driver gives its handle to another thread
  });
  EndMeasuringPrimary(ended.device, false);
  const CudaResult result = Driver<CudaResult(CudaHandle)>(kCall_cuGreenCtxDestroy)(green);
  if (result == kSuccess) {
    CountUsers(ended.device, -1);
    Aside([&] { ForgetContext(ended.context); });
    PrimaryEnded(ended.device, false, before);
  } else if (ended.green != nullptr) {
    Aside([&] {
      Notes& notes = AllNotes();
      const ContextsLock lock(notes.mutex);
      notes.greens.push_back(ended);
    });
  }
  return result;
}

/// The stream is forgotten before, because another thread's wait may record an event in it.
/// The stream's last calls are charged later: its events stay valid.
static void EndStream(CudaHandle stream) {
  const StreamKey key = KeyOf(stream, false);
  if (Hooks() != nullptr) Settle(key.context, {.open_batches = true, .waited = key.handle});
  ForgetStream(key);
}

#define WEIR_DESTROY_STREAM(name)                                \
  WEIR_EXPORT CudaResult name(CudaHandle stream) {               \
    Aside([stream] { EndStream(stream); });                      \
    return Driver<CudaResult(CudaHandle)>(kCall_##name)(stream); \
  }
WEIR_DESTROY_STREAM(cuStreamDestroy)
WEIR_DESTROY_STREAM(cuStreamDestroy_v2)
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
