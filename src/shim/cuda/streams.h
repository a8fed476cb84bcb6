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

#include "platform/mutex.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/hooks.h"

namespace weir::shim::cuda {

/// The shim's functions; null: the program runs without a gate.
const weir_cuda_hooks* Hooks();

/// What of a context's time was charged. Times are those of events, in ns since the context's first event.
/// cuEventElapsedTime returns a float, so a near event is the reference.
class ContextClock {
 public:
  explicit ContextClock(CudaHandle context) : context_(context) {}
  [[nodiscard]] CudaHandle context() const { return context_; }
  /// Called after an event was recorded in `stream`, with that stream's context current. Renews the reference every
  /// second.
  void Renew(CudaHandle stream, std::int64_t now_ns);

  enum class Answer { kTime, kLater, kFailed };
  struct Window {
    double begin_ns = 0, end_ns = 0;
  };
  /// The times of two events that have come. kLater: the reference has not come yet. kFailed: the driver does not know
  /// the events.
  Answer TimesOf(CudaHandle begin, CudaHandle end, Window& window);
  /// Charges at most `work_ns` of the time in the window that no earlier charge has taken, and returns it.
  std::int64_t Charge(const Window& window, double work_ns);

 private:
  static constexpr double kNever = -1e18;  // before every event
  static constexpr std::size_t kChargedMost = 64;

  CudaResult TimeOf(CudaHandle event, double& ns) const;

  const CudaHandle context_;
  platform::Mutex mutex_;
  std::array<CudaHandle, 2> references_{};  // the one in use, and the next one, which may not have come yet
  double origin_ns_ = 0;                    // time of the reference in use
  bool renewing_ = false;
  std::int64_t renewed_ns_ = 0;
  // What was charged: all before floor_ns_, and the intervals, which are sorted and disjoint.
  double floor_ns_ = kNever;
  std::array<Window, kChargedMost> charged_{};
  std::size_t charged_count_ = 0;
};

class Stream {
 public:
  Stream(ContextClock& clock, CudaHandle handle, const char* renderer);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() = delete;  // a stream's handle may be used again, and its events belong to the context

  [[nodiscard]] const weir_cuda_stream& place() const { return place_; }
  [[nodiscard]] CudaHandle context() const { return clock_.context(); }
  /// Before and after the driver's function. `ends_batch`: the call has passed the gate; only then `now_ns` counts.
  void Begin(bool ends_batch);
  void End(bool ends_batch, std::int64_t now_ns);
  /// Waits until the device has completed the batch before the last one, or, with `shares`, the last one too if it is
  /// long. For a limited time.
  void Await(bool shares);

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
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
  bool AwaitEvent(std::size_t Stream::*event, std::int64_t from_ns);
  void EndBatch();
  void StartAgain();

  ContextClock& clock_;
  const CudaHandle handle_;
  weir_cuda_stream place_;
  // All members below are guarded by the mutex. An index of an event is kNone if there is no such event.
  platform::Mutex mutex_;
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
  std::int64_t batch_ns_ = 0;     // device time of the last batch that is known
  bool may_await_long_ = true;    // no wait for a long batch has ended without its end
  double call_ns_ = 0;            // of a call, a mean of the last spans
  std::uint32_t random_ = 0x9E3779B9;
};

/// What identifies a stream. Streams of a green context belong to the primary one.
struct StreamKey {
  CudaHandle context = nullptr, handle = nullptr;
  CudaHandle default_of = nullptr;  // of a default stream: its context, because each green one has its own
  const void* thread = nullptr;     // of a per-thread default stream
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};
/// A default stream is that of the calling thread's current context. Any other one is found by its handle, whatever the
/// current context is. The context is null if the thread has no current one.
StreamKey KeyOf(CudaHandle handle, bool per_thread_default);

/// The stream of a call; null: there is no context, or too many streams. `current`: the thread's context.
Stream* FindStream(CudaHandle handle, bool per_thread_default, CudaHandle current);

/// After streams were destroyed: their handles may be those of other streams now.
void ForgetStreams();

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
