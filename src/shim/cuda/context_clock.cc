// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/context_clock.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "platform/clock.h"
#include "shim/cuda/captures.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {
namespace {

using ClockLock = std::lock_guard<platform::Mutex>;

constexpr double kNsPerMs = 1e6;
constexpr std::int64_t kRenewNs = 1'000'000'000;
/// Streams that the end of a batch reads beside its own.
constexpr unsigned kOthersMost = 8;

}  // namespace

CudaResult ContextClock::TimeOf(CudaHandle event, double& ns) const {
  float ms = 0;
  const CudaResult result =
      Driver<CudaResult(float*, CudaHandle, CudaHandle)>(kCall_cuEventElapsedTime)(&ms, references_[0], event);
  ns = origin_ns_ + static_cast<double>(ms) * kNsPerMs;
  return result;
}

void ContextClock::Renew(CudaHandle stream, std::int64_t now_ns) {
  const ClockLock lock(mutex_);
  if (references_[0] != nullptr && (renewing_ || now_ns - renewed_ns_ < kRenewNs)) return;
  CudaHandle& reference = references_[references_[0] == nullptr ? 0 : 1];
  if (reference == nullptr && Driver<CudaResult(CudaHandle*, unsigned)>(kCall_cuEventCreate)(&reference, 0) != kSuccess)
    return;
  if (Driver<CudaResult(CudaHandle, CudaHandle)>(kCall_cuEventRecord)(reference, stream) != kSuccess) return;
  renewing_ = &reference == &references_[1];
  renewed_ns_ = now_ns;
}

ContextClock::Answer ContextClock::TimesOf(CudaHandle begin, CudaHandle end, Window& window) {
  const ClockLock lock(mutex_);
  if (references_[0] == nullptr) return Answer::kLater;
  CudaResult result = TimeOf(begin, window.begin_ns);
  if (result == kSuccess) result = TimeOf(end, window.end_ns);
  if (result == kNotReady) return Answer::kLater;
  if (result != kSuccess) {
    // After the program has reset its context, another one may have the same handle, but not the events.
    const CudaResult reference = QueryEvent(references_[0]);
    if (reference != kSuccess && reference != kNotReady) {
      references_ = {};
      origin_ns_ = 0;
      renewing_ = false;
      if (charged_ != nullptr) charged_->Forget();
    }
    return Answer::kFailed;
  }
  if (double next_ns = 0;
      renewing_ && QueryEvent(references_[1]) == kSuccess && TimeOf(references_[1], next_ns) == kSuccess) {
    std::swap(references_[0], references_[1]);
    origin_ns_ = next_ns;
    renewing_ = false;
  }
  return Answer::kTime;
}

std::int64_t ContextClock::Charge(const Window& window, double work_ns) {
  const ClockLock lock(mutex_);
  return charged_ != nullptr ? charged_->Charge(window, work_ns) : 0;
}

void ContextClock::Add(Stream& stream) {
  stream.next_in_context_ = first_.load(std::memory_order_relaxed);
  while (!first_.compare_exchange_weak(stream.next_in_context_, &stream, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  count_.fetch_add(1, std::memory_order_relaxed);
}

void ContextClock::ReadOthers(const Stream& stream) {
  if (!AnyUnknown()) return;
  Stream* turn = turn_.load(std::memory_order_acquire);
  for (unsigned left = std::min(count_.load(std::memory_order_relaxed), kOthersMost); left > 0; --left) {
    turn = turn != nullptr ? turn->next_in_context_ : nullptr;
    if (turn == nullptr) turn = first_.load(std::memory_order_acquire);
    if (turn != nullptr && turn != &stream) turn->TryRead();
  }
  turn_.store(turn, std::memory_order_release);
}

void ContextClock::ReadAll(const Reading& reading) {
  Stream* const first = first_.load(std::memory_order_acquire);
  if (reading.open_batches) {
    const ClockLock lock(OfProcess<CaptureBegin>::Get().mutex);
    // Nothing is recorded while a stream captures.
    for (Stream* one = first; one != nullptr && captures.load(std::memory_order_relaxed) == 0;
         one = one->next_in_context_)
      one->EndOpenBatch(reading);
  }
  const std::int64_t from_ns = platform::NowNs();
  for (Stream* one = first; one != nullptr && AnyUnknown(); one = one->next_in_context_)
    one->ReadAll(reading.awaits, from_ns);
}

void ContextClock::Retire() {
  for (Stream* one = first_.load(std::memory_order_acquire); one != nullptr; one = one->next_in_context_) one->Retire();
  const ClockLock lock(mutex_);
  charged_.reset();
}

}  // namespace weir::shim::cuda
