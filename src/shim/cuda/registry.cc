// SPDX-License-Identifier: Apache-2.0
// Which streams the program has, and the clock of each context.
//
//   a call in a stream ──▶ Stream ── the stream is destroyed, or the thread of a default stream ends ──▶ spare
//                            ▲                                                                             │
//                            └──────────────── the context's next stream ─────────────────────────────────┘
//   a context that ends: its clock and its streams are retired, and kept
#include <atomic>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "platform/clock.h"
#include "platform/mutex.h"
#include "shim/cuda/aside.h"
#include "shim/cuda/captures.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/of_process.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {
namespace {

using KnownLock = std::lock_guard<platform::Mutex>;

/// Streams beyond this number are not measured, and their calls pass no gate.
constexpr std::size_t kStreamsMost = 1024;

/// Streams that have no object of the program's.
const CudaHandle kLegacy = reinterpret_cast<CudaHandle>(std::uintptr_t{1}),
                 kPerThread = reinterpret_cast<CudaHandle>(std::uintptr_t{2});

/// Increases when handles of streams may have been used again.
std::atomic<unsigned> streams_forgotten{0};

struct Context {
  explicit Context(CudaHandle handle) : clock(handle) {}
  ContextClock clock;
  int device = -1;  // -1: the driver has not said which
  char renderer[256] = "";
  std::vector<Stream*> spare;  // whose streams have ended
  Context* ended_before = nullptr;
};

struct Known {
  platform::Mutex mutex;
  std::map<CudaHandle, Context*> contexts;
  std::map<StreamKey, Stream*> streams;
  Context* ended = nullptr;  // the last context that has ended
};
Known& Registry() { return OfProcess<Known>::Get(); }

/// Ends those streams for which the condition holds. Their contexts may use the objects again.
template <typename Condition>
void EndStreams(Condition condition) {
  try {
    Known& known = Registry();
    const KnownLock lock(known.mutex);
    std::erase_if(known.streams, [&](const auto& one) {
      if (!condition(one.first)) return false;
      const auto owner = known.contexts.find(one.first.context);
      if (owner == known.contexts.end() || one.second == nullptr) return true;  // null: no memory was left for it
      one.second->Leave();
      owner->second->spare.push_back(one.second);
      return true;
    });
  } catch (...) {  // out of memory: an object is not used again
  }
  streams_forgotten.fetch_add(1, std::memory_order_release);
}

/// What the calls of the thread's open batches cost is charged now, or later if the device has not done them. The
/// thread is the calling one, because a thread's default stream can be named in that thread only.
void EndBatchesOf(std::uint64_t thread) {
  Known& known = Registry();
  std::vector<std::pair<StreamKey, Stream*>> ending;
  {
    const KnownLock lock(known.mutex);
    for (const auto& [key, stream] : known.streams)
      if (key.thread == thread && stream != nullptr) ending.emplace_back(key, stream);
  }
  // Calls that were made without a daemon are not charged.
  if (ending.empty() || Hooks() == nullptr || Hooks()->charges() == 0) return;
  for (const auto& [key, stream] : ending) {
    std::unique_lock<platform::Mutex> lock(known.mutex);
    // A context is forgotten before it ends, so it exists while its streams are known and the mutex is held. If it ends
    // while it is this thread's current one, the driver refuses what is asked.
    if (!known.streams.contains(key)) continue;
    const RelaxedCapture relaxed(true);
    // A green context has default streams of its own.
    const InContext in(key.default_of != nullptr ? key.default_of : key.context, CurrentContext());
    lock.unlock();
    {
      const KnownLock begin(OfProcess<CaptureBegin>::Get().mutex);
      // Nothing is recorded while a stream captures. With `awaits`, another thread that reads the stream is awaited.
      if (captures.load(std::memory_order_relaxed) == 0)
        stream->EndOpenBatch({.open_batches = true, .awaits = true, .waited = kPerThread, .thread = thread});
    }
    Settle(stream->clock(), {});
  }
}

/// The calling thread ends, and its default streams with it.
void EndThread(std::uint64_t number) {
  Aside([number] { EndBatchesOf(number); });
  EndStreams([number](const StreamKey& key) { return key.thread == number; });
}

/// Of the calling thread. Numbers are not used again, as addresses are. The thread's default streams end with it.
std::uint64_t ThreadNumber() {
  struct End {
    std::uint64_t number = 0;
    ~End() {
      if (number != 0) EndThread(number);
    }
  };
  static std::atomic<std::uint64_t> last{0};
  static thread_local std::uint64_t number = 0;
  static thread_local End end;
  if (number == 0) end.number = number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

/// The number of devices that the program has contexts on; of those from the 64th on, some count as one. Requires the
/// lock.
unsigned DevicesInUse(const Known& known) {
  std::uint64_t devices = 0;  // a bit for each
  for (const auto& [handle, context] : known.contexts)
    if (context != nullptr && context->device >= 0) devices |= std::uint64_t{1} << (context->device % 64);
  return static_cast<unsigned>(std::popcount(devices));
}

/// Requires the lock.
Context* ContextOf(Known& known, const StreamKey& key) {
  Context*& context = known.contexts[key.context];
  if (context != nullptr) return context;
  context = new Context(key.context);
  const InContext in(key.context, CurrentContext());
  int device = 0;
  if (Driver<CudaResult(int*)>(kCall_cuCtxGetDevice)(&device) != kSuccess) return context;
  context->device = device;
  if (const weir_cuda_hooks* const hooks = Hooks()) hooks->use_devices(DevicesInUse(known));
  if (Driver<CudaResult(char*, int, int)>(kCall_cuDeviceGetName)(context->renderer, sizeof context->renderer, device) !=
      kSuccess)
    context->renderer[0] = '\0';
  return context;
}

/// Requires the lock.
Stream* NewStream(Context& owner, const StreamKey& key) {
  Stream* stream = nullptr;
  if (owner.spare.empty()) {
    stream = new Stream(owner.clock, key.handle, owner.renderer);
  } else {
    stream = owner.spare.back();
    owner.spare.pop_back();
  }
  stream->Become(key.handle, key.thread);
  return stream;
}

}  // namespace

StreamKey KeyOf(CudaHandle handle, bool per_thread_default) {
  if (handle == nullptr) handle = per_thread_default ? kPerThread : kLegacy;
  const bool is_default = handle == kLegacy || handle == kPerThread;
  CudaHandle context = nullptr;
  // A driver that lacks the function has streams of the current context only.
  if (is_default || !DriverHas(kCall_cuStreamGetCtx) ||
      Driver<CudaResult(CudaHandle, CudaHandle*)>(kCall_cuStreamGetCtx)(handle, &context) != kSuccess)
    context = CurrentContext();
  return {OwnerOf(context), handle, is_default ? context : nullptr, handle == kPerThread ? ThreadNumber() : 0};
}

namespace {

/// `makes`: a stream that is not known becomes known.
Stream* LookUpStream(CudaHandle handle, bool per_thread_default, CudaHandle current, bool makes) {
  // Of the thread's last streams. A stream by its handle is the same in every context, but a default one is not.
  struct Last {
    CudaHandle context, handle;
    unsigned forgotten;
    Stream* stream;
  };
  static thread_local Last lasts[16]{};
  if (handle == nullptr) handle = per_thread_default ? kPerThread : kLegacy;
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  Last& last = lasts[(number >> 4 ^ number >> 10) % std::size(lasts)];
  const unsigned forgotten = streams_forgotten.load(std::memory_order_acquire);
  if (last.stream != nullptr && last.context == current && last.handle == handle && last.forgotten == forgotten)
    return last.stream;
  const StreamKey key = KeyOf(handle, per_thread_default);
  if (key.context == nullptr) return nullptr;
  try {
    Known& known = Registry();
    const KnownLock lock(known.mutex);
    if (!makes && !known.streams.contains(key)) return nullptr;
    Stream*& stream = known.streams[key];
    if (stream == nullptr) {
      if (known.streams.size() > kStreamsMost) return known.streams.erase(key), nullptr;
      stream = NewStream(*ContextOf(known, key), key);
    }
    last = {current, handle, forgotten, stream};
    return stream;
  } catch (...) {
    return nullptr;  // out of memory
  }
}

}  // namespace

Stream* FindStream(CudaHandle handle, bool per_thread_default, CudaHandle current) {
  return LookUpStream(handle, per_thread_default, current, true);
}

Stream* FindKnownStream(CudaHandle handle, bool per_thread_default, CudaHandle current) {
  return LookUpStream(handle, per_thread_default, current, false);
}

void ForgetStream(const StreamKey& key) {
  EndStreams([&key](const StreamKey& one) { return one == key; });
}

void ForgetContext(CudaHandle context) {
  if (context == nullptr) return;
  Context* ended = nullptr;
  try {
    Known& known = Registry();
    const KnownLock lock(known.mutex);
    std::erase_if(known.streams, [context](const auto& one) { return one.first.context == context; });
    if (const auto found = known.contexts.extract(context)) ended = found.mapped();
    if (ended != nullptr) ended->ended_before = std::exchange(known.ended, ended);
  } catch (...) {  // out of memory, and so nothing is known
  }
  EndStreams([context](const StreamKey& one) { return one.default_of == context; });
  if (ended != nullptr) ended->clock.Retire();
}

void Settle(ContextClock& clock, Reading reading) {
  const weir_cuda_hooks* const hooks = Hooks();
  if (hooks == nullptr) return;
  // Calls that were made without a daemon are not charged.
  reading.open_batches = reading.open_batches && hooks->charges() != 0;
  if (!reading.open_batches && !clock.AnyUnknown()) return;
  {
    const RelaxedCapture relaxed(true);
    const InContext in(clock.context(), CurrentContext());
    if (reading.open_batches) reading.thread = ThreadNumber();
    clock.ReadAll(reading);
  }
  hooks->settle();
}

void Settle(CudaHandle context, Reading reading) {
  Context* found = nullptr;
  {
    Known& known = Registry();
    const KnownLock lock(known.mutex);
    const auto one = known.contexts.find(context);
    if (one != known.contexts.end()) found = one->second;
  }
  if (found != nullptr) Settle(found->clock, reading);
}

void SettleAfterQuery(CudaHandle stream, bool per_thread_default) {
  Stream* const found = FindKnownStream(stream, per_thread_default, CurrentContext());
  if (found == nullptr) return;
  if (const std::optional<Reading> reading = found->AfterQuery(platform::NowNs())) Settle(found->clock(), *reading);
}

bool IsCapturing(CudaHandle handle, bool per_thread_default) {
  int status = 0;
  const CudaResult result = Driver<CudaResult(CudaHandle, int*)>(
      per_thread_default ? kCall_cuStreamIsCapturing_ptsz : kCall_cuStreamIsCapturing)(handle, &status);
  return result != kSuccess || status != 0;
}

}  // namespace weir::shim::cuda
