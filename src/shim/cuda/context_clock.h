// SPDX-License-Identifier: Apache-2.0
// The times of a context's events, and what of the context's time was charged. One object for each context.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "platform/mutex.h"
#include "shim/common/charged_time.h"
#include "shim/cuda/driver.h"

namespace weir::shim::cuda {

class Stream;

/// Which part of a context's work is read, and how.
struct Reading {
  bool open_batches = false;    // they end now, so that all calls count
  bool awaits = false;          // waits until all is known, for a limited time
  CudaHandle waited = nullptr;  // only the open batch of the stream with this handle ends; null: those of all streams
  std::uint64_t thread = 0;     // the thread that reads
};

/// What is not charged yet: spans that are not known, and streams whose open batch has calls. While it is 0, a query of
/// the program need not be looked at.
inline std::atomic<int> uncharged{0};

inline CudaResult QueryEvent(CudaHandle event) { return Driver<CudaResult(CudaHandle)>(kCall_cuEventQuery)(event); }

/// Times are those of events, in ns since the context's first event. cuEventElapsedTime returns a float, so a near
/// event is the reference.
class ContextClock {
 public:
  explicit ContextClock(CudaHandle context) : context_(context), charged_(std::make_unique<ChargedTime>()) {}
  [[nodiscard]] CudaHandle context() const { return context_; }
  /// Called after an event was recorded in `stream`, with that stream's context current. Renews the reference every
  /// second.
  void Renew(CudaHandle stream, std::int64_t now_ns);

  enum class Answer { kTime, kLater, kFailed };
  using Window = ChargedTime::Window;
  /// The times of two events that have come. kLater: the reference has not come yet. kFailed: the driver does not know
  /// the events.
  Answer TimesOf(CudaHandle begin, CudaHandle end, Window& window);
  /// Charges at most `work_ns` of the time in the window that no earlier charge has taken, and returns it.
  std::int64_t Charge(const Window& window, double work_ns);

  /// A stream that this clock measures, for good.
  void Add(Stream& stream);
  /// More spans of the context are unknown now; negative: fewer.
  void CountUnknown(int more) {
    unknown_.fetch_add(more, std::memory_order_relaxed);
    uncharged.fetch_add(more, std::memory_order_relaxed);
  }
  [[nodiscard]] bool AnyUnknown() const { return unknown_.load(std::memory_order_relaxed) > 0; }
  /// Reads what is known of some other streams of the context, in turns. A window that is read late may have been
  /// forgotten as a whole.
  void ReadOthers(const Stream& stream);
  void ReadAll(const Reading& reading);
  /// The context ends. Its events are not used any more.
  void Retire();

 private:
  CudaResult TimeOf(CudaHandle event, double& ns) const;

  const CudaHandle context_;
  std::atomic<Stream*> first_{nullptr};  // of the streams, in a list that only grows
  std::atomic<unsigned> count_{0};       // of them
  std::atomic<Stream*> turn_{nullptr};   // the last one that ReadOthers has read
  std::atomic<int> unknown_{0};

  platform::Mutex mutex_;
  std::array<CudaHandle, 2> references_{};  // the one in use, and the next one, which may not have come yet
  double origin_ns_ = 0;                    // time of the reference in use
  bool renewing_ = false;
  std::int64_t renewed_ns_ = 0;
  std::unique_ptr<ChargedTime> charged_;  // null: the context has ended
};

}  // namespace weir::shim::cuda
