// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>

#include "platform/mutex.h"
#include "shim/cuda/aside.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/of_process.h"

namespace weir::shim::cuda {

/// Captures that the program has begun and not ended.
inline std::atomic<int> captures{0};

/// A capture begins only while nobody holds this mutex.
struct CaptureBegin {
  platform::Mutex mutex;
};

/// Before a capture begins.
inline void CountCapture() {
  bool counted = false;
  Aside([&counted] {
    const std::lock_guard<platform::Mutex> lock(OfProcess<CaptureBegin>::Get().mutex);
    captures.fetch_add(1, std::memory_order_relaxed);
    counted = true;
  });
  if (!counted) captures.fetch_add(1, std::memory_order_relaxed);
}

/// While a stream captures, calls of other threads may be forbidden to what Weir does with events. They are not in this
/// mode.
class RelaxedCapture {
 public:
  /// `asks`: Weir is going to ask about events, which another thread's capture forbids from one moment to the next.
  explicit RelaxedCapture(bool asks) : needed_(asks || captures.load(std::memory_order_relaxed) > 0) { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() {
    if (needed_) Driver<CudaResult(int*)>(kCall_cuThreadExchangeStreamCaptureMode)(&mode_);
  }
  static constexpr int kRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  const bool needed_;
  int mode_ = kRelaxed;
};

}  // namespace weir::shim::cuda
