// SPDX-License-Identifier: Apache-2.0
// What is measured of a stream: spans of device time between events that Weir records in it.
//
//   dense:   launch launch launch E   launch launch launch E      a batch is a span, from the end of the one before
//   sparse:  launch B launch E launch launch E                    one call of a batch is a span, and stands for all
//
// A span may only cover time in which the device works. While the last batch's end has not come when the next batch
// ends, the stream never ran empty meanwhile, so one event for a batch is enough (dense). Otherwise one call of each
// batch, chosen at random, is measured by itself (sparse), so that the time between two calls is not charged. Events
// around each call would take a program that makes short calls several times as long as the calls.
//
//   sparse ──the last batch's end has not come when a batch ends──▶ dense
//   dense  ──it has come: the stream has run empty──▶ sparse
//
// The last batch before a change to sparse is charged what calls have cost lately, because its span may cover a wait at
// the gate.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/schedule/batch_bounds.h"
#include "platform/mutex.h"
#include "shim/cuda/context_clock.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/hooks.h"

namespace weir::shim::cuda {

/// The shim's functions; null: the program runs without a gate.
const weir_cuda_hooks* Hooks();

class Stream {
 public:
  Stream(ContextClock& clock, CudaHandle handle, const char* renderer);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() = delete;  // a stream's handle may be used again, and its events belong to the context

  [[nodiscard]] const weir_cuda_stream& place() const { return place_; }
  [[nodiscard]] CudaHandle context() const { return clock_.context(); }
  [[nodiscard]] ContextClock& clock() const { return clock_; }
  /// Before and after the driver's function. `ends_batch`: the call has passed the gate; only then `now_ns` counts.
  void Begin(bool ends_batch);
  void End(bool ends_batch, std::int64_t now_ns);
  /// Waits until the device has completed the batch before the last one, or, with `shares`, the last one too if it is
  /// long. For a limited time.
  void Await(bool shares);
  /// Reads what is known, unless another thread works with the stream now.
  void TryRead();
  /// The same, and waits for the other thread. `awaits`: waits until all is known, until a limited time after
  /// `from_ns`.
  void ReadAll(bool awaits, std::int64_t from_ns);
  /// Ends a batch without a passage, unless a call of another thread is under way.
  void EndOpenBatch(const Reading& reading);
  /// What can be charged now that a query has said that the stream's work is done. Nullopt: nothing, or another thread
  /// works with the stream.
  std::optional<Reading> AfterQuery(std::int64_t now_ns);
  [[nodiscard]] CudaHandle handle();
  /// The stream has ended. The object may become another stream of the context, and what is not known yet becomes
  /// known.
  void Leave();
  void Become(CudaHandle handle, std::uint64_t thread);
  /// The context ends: its events are not used any more.
  void Retire();

 private:
  friend class ContextClock;
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};
  static constexpr std::size_t kSpans = 64;
  static constexpr std::size_t kEvents = 3 * kSpans + 8;
  struct Span {
    std::size_t begin = kNone, end = kNone;  // indexes of events; kNone: the batch was not measured
    std::size_t batch_begin = kNone;         // the end of the batch before it
    std::size_t batch_end = kNone;
    unsigned calls = 1;       // that the span covers
    unsigned stands_for = 1;  // calls of the batch
  };

  bool Record(std::size_t& event);
  void Add(const Span& span);
  void Read();
  /// False: not known yet, or the driver fails.
  bool Take(const Span& span, std::int64_t& taken_ns);
  [[nodiscard]] bool Complete(std::size_t event);
  template <typename Condition>
  bool AwaitUntil(std::int64_t from_ns, Condition condition);
  bool AwaitEvent(std::size_t Stream::*event, std::int64_t from_ns);
  /// Whether the call has ended a batch.
  bool EndCall(bool ends_batch, std::int64_t now_ns);
  void EndBatch();
  void StartAgain();
  void ForgetCalls();
  void Forget(std::size_t spans);

  ContextClock& clock_;
  Stream* next_in_context_ = nullptr;
  weir_cuda_stream place_;
  // All members below are guarded by the mutex. An index of an event is kNone if there is no such event.
  platform::Mutex mutex_;
  CudaHandle handle_;
  std::uint64_t thread_ = 0;  // whose default stream it is; 0: it is not that of a thread; kNobody: it has ended
  std::array<CudaHandle, kEvents> events_{};
  std::size_t next_event_ = 0;
  std::array<Span, kSpans> spans_{};  // a ring of those that the device may not have completed
  std::size_t first_ = 0, count_ = 0;
  bool dense_ = false;
  bool broken_ = false;           // the driver refuses the events: the context is gone, or has failed
  int failures_ = 0;              // how often broken_ was set since a span was known
  unsigned calls_ = 0;            // of the open batch
  unsigned sampled_call_ = 0;     // the call of the open batch that is measured (sparse)
  Span sample_;                   // its span
  std::size_t last_end_ = kNone;  // of the last batch
  std::size_t before_ = kNone;    // of the batch before it
  std::int64_t ended_ns_ = 0;     // when the last batch that passed the gate has ended, on the host
  std::int64_t batch_ns_ = 0;     // device time of the last batch that is known
  bool may_await_long_ = true;    // no wait for a long batch has ended without its end
  double call_ns_ = 0;            // of a call, a mean of the last spans
  std::uint32_t random_ = 0x9E3779B9;
};

/// What identifies a stream. Streams of a green context belong to the primary one.
struct StreamKey {
  CudaHandle context = nullptr, handle = nullptr;
  CudaHandle default_of = nullptr;  // of a default stream: its context, because each green one has its own
  std::uint64_t thread = 0;         // of a per-thread default stream: the thread's number
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};
/// A default stream is that of the calling thread's current context. Any other one is found by its handle, whatever the
/// current context is. The context is null if the thread has no current one.
StreamKey KeyOf(CudaHandle handle, bool per_thread_default);

/// The stream of a call; null: there is no context, or too many streams. `current`: the thread's context.
Stream* FindStream(CudaHandle handle, bool per_thread_default, CudaHandle current);
/// The same; null: there was no call in the stream.
Stream* FindKnownStream(CudaHandle handle, bool per_thread_default, CudaHandle current);

/// The stream has ended. Its handle may be that of another one now.
void ForgetStream(const StreamKey& key);
/// The context ends, or has ended, and its streams and events with it. Of a green context only the default streams end:
/// its events are the primary one's. Objects stay, because threads may hold them.
void ForgetContext(CudaHandle context);

/// Reads what is known of a context's work, and has it charged.
void Settle(ContextClock& clock, Reading reading);
void Settle(CudaHandle context, Reading reading);
/// After a call of the program that has waited for work. If it has taken a batch's time, calls of batches that have not
/// ended may have cost as much, and count too. `stream`: Reading::waited.
inline Reading AfterWaitOf(std::int64_t waited_ns, CudaHandle stream) {
  return {.open_batches = waited_ns >= core::BatchBounds::kLaunchesLeast.count(), .waited = stream};
}

/// After a query of the program that has found a stream's work done.
void SettleAfterQuery(CudaHandle stream, bool per_thread_default);

/// Makes a stream's context current, if another one is, so that events of Weir are made and recorded there.
class InContext {
 public:
  InContext(CudaHandle context, CudaHandle current);
  ~InContext();
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  bool pushed_ = false;
};

/// Whether a stream may be capturing now: then nothing is recorded in it, and the call puts no work on the device.
bool IsCapturing(CudaHandle handle, bool per_thread_default);

}  // namespace weir::shim::cuda
