// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/streams.h"

#include <algorithm>
#include <ctime>
#include <mutex>

#include "core/schedule/batch_bounds.h"
#include "platform/clock.h"
#include "shim/cuda/contexts.h"

namespace weir::shim::cuda {
namespace {

using Lock = std::lock_guard<platform::Mutex>;
using platform::NowNs;

/// A program whose kernel waits for a later call of the program would never continue without a bound.
constexpr std::int64_t kAwaitMostNs = 1'000'000'000;
/// Below this time a sleep would take longer than what is waited for.
constexpr std::int64_t kAwaitAwakeNs = 30'000;
constexpr std::int64_t kAwaitSliceMostNs = 1'000'000;
/// While vGPUs share the device, the end of a batch that takes this long is awaited, so that it is charged before the
/// next one.
constexpr std::int64_t kLongNs = 4'000'000;
/// A context that has failed for good refuses every event.
constexpr int kFailuresMost = 16;

void AwaitOf(const void* key, int shares) { static_cast<Stream*>(const_cast<void*>(key))->Await(shares != 0); }

}  // namespace

Stream::Stream(ContextClock& clock, CudaHandle handle, const char* renderer)
    : clock_(clock), place_{this, renderer, &AwaitOf}, handle_(handle) {
  clock_.Add(*this);
}

bool Stream::Record(std::size_t& event) {
  CudaHandle& handle = events_[next_event_];
  if (handle == nullptr && Driver<CudaResult(CudaHandle*, unsigned)>(kCall_cuEventCreate)(&handle, 0) != kSuccess)
    broken_ = true;
  if (!broken_ && Driver<CudaResult(CudaHandle, CudaHandle)>(kCall_cuEventRecord)(handle, handle_) != kSuccess)
    broken_ = true;
  if (broken_) return false;
  event = next_event_;
  next_event_ = (next_event_ + 1) % events_.size();
  return true;
}

bool Stream::Complete(std::size_t event) {
  if (event == kNone) return true;
  const CudaResult result = QueryEvent(events_[event]);
  broken_ = broken_ || (result != kSuccess && result != kNotReady);
  return result == kSuccess;
}

void Stream::StartAgain() {
  events_.fill(nullptr);
  Forget(count_);
  dense_ = broken_ = false;
  sample_ = {};
  last_end_ = before_ = kNone;
  sampled_call_ = 0;
  ForgetCalls();
}

/// The open batch has no calls any more.
void Stream::ForgetCalls() {
  if (calls_ > 0) uncharged.fetch_sub(1, std::memory_order_relaxed);
  calls_ = 0;
}

void Stream::Begin(bool ends_batch) {
  const Lock lock(mutex_);
  if (broken_ && failures_ < kFailuresMost) {
    ++failures_;
    StartAgain();
  }
  const unsigned call = calls_++;
  if (call == 0) uncharged.fetch_add(1, std::memory_order_relaxed);
  if (broken_ || dense_ || sample_.begin != kNone || count_ == kSpans) return;
  if (call == sampled_call_ || ends_batch) Record(sample_.begin);
}

void Stream::End(bool ends_batch, std::int64_t now_ns) {
  {
    const Lock lock(mutex_);
    if (!EndCall(ends_batch, now_ns)) return;
  }
  clock_.ReadOthers(*this);
}

bool Stream::EndCall(bool ends_batch, std::int64_t now_ns) {
  if (broken_) return false;
  if (sample_.begin != kNone && sample_.end == kNone && !Record(sample_.end)) return false;
  if (!ends_batch || calls_ == 0) return false;  // another thread's call has ended the batch
  if (count_ == kSpans) Read();
  if (count_ < kSpans) EndBatch();  // else the batch goes on
  ended_ns_ = now_ns;
  clock_.Renew(handle_, now_ns);
  Read();
  return true;
}

void Stream::EndBatch() {
  const bool ran_empty = Complete(last_end_);
  std::size_t end = kNone;
  if (broken_ || !Record(end)) return;
  // More calls were made while the process was not attached, and are not charged.
  const unsigned calls = std::min<unsigned>(calls_, core::BatchBounds::kLaunchesMost);
  Span span{
      .begin = sample_.begin, .end = sample_.end, .batch_begin = last_end_, .batch_end = end, .stands_for = calls};
  if (dense_ && !ran_empty) {
    span.begin = last_end_;
    span.end = end;
    span.calls = calls;
  }
  Add(span);
  before_ = last_end_;
  last_end_ = end;
  dense_ = !ran_empty;
  sample_ = {};
  random_ = random_ * 1664525 + 1013904223;
  sampled_call_ = (random_ >> 8) % calls_;
  ForgetCalls();
}

void Stream::Add(const Span& span) {
  spans_[(first_ + count_) % kSpans] = span;
  ++count_;
  clock_.CountUnknown(1);
  if (const weir_cuda_hooks* hooks = Hooks()) hooks->report_time(1, 0, 0);
}

/// The device time of the earliest spans stays unknown, or is known.
void Stream::Forget(std::size_t spans) {
  first_ = (first_ + spans) % kSpans;
  count_ -= spans;
  clock_.CountUnknown(-static_cast<int>(spans));
}

bool Stream::Take(const Span& span, std::int64_t& taken_ns) {
  using Answer = ContextClock::Answer;
  ContextClock::Window measured{}, batch{};
  const bool is_measured = span.begin != kNone && span.end != kNone;
  Answer answer = Answer::kTime;
  if (is_measured) answer = clock_.TimesOf(events_[span.begin], events_[span.end], measured);
  if (answer == Answer::kTime && span.batch_begin != kNone)
    answer = clock_.TimesOf(events_[span.batch_begin], events_[span.batch_end], batch);
  broken_ = answer == Answer::kFailed;
  if (answer != Answer::kTime) return false;
  if (is_measured) {
    constexpr double kNew = 0.125;
    const double call_ns = (measured.end_ns - measured.begin_ns) / span.calls;
    call_ns_ += (call_ns_ == 0 ? 1 : kNew) * (call_ns - call_ns_);
    // A call is taken for as many as it stands for only within the time from the batch before to the batch's own end.
    taken_ns = span.calls == span.stands_for || span.batch_begin == kNone
                   ? clock_.Charge(measured, measured.end_ns - measured.begin_ns)
                   : clock_.Charge(batch, call_ns * span.stands_for);
  } else {
    taken_ns = span.batch_begin != kNone ? clock_.Charge(batch, call_ns_ * span.stands_for) : 0;
  }
  return true;
}

void Stream::Read() {
  std::int64_t known_ns = 0, taken_ns = 0;
  unsigned known = 0;
  while (count_ > 0 && !broken_ && Complete(spans_[first_].batch_end) && Take(spans_[first_], taken_ns)) {
    batch_ns_ = taken_ns;
    known_ns += taken_ns;
    failures_ = 0;
    ++known;
    Forget(1);
  }
  const weir_cuda_hooks* hooks = Hooks();
  if (hooks != nullptr && known > 0) hooks->report_time(0, known, known_ns);
}

void Stream::Await(bool shares) {
  const std::int64_t from_ns = NowNs();
  if (!AwaitEvent(&Stream::before_, from_ns) || !shares) return;
  {
    const Lock lock(mutex_);
    if (batch_ns_ < kLongNs || !may_await_long_) return;
  }
  if (AwaitEvent(&Stream::last_end_, from_ns)) return;
  // The batch may wait for a later call of this thread, as kernels of a collective operation on two devices do.
  const Lock lock(mutex_);
  may_await_long_ = false;
}

/// Waits until the event has come. False: it has not come in time.
bool Stream::AwaitEvent(std::size_t Stream::*event, std::int64_t from_ns) {
  return AwaitUntil(from_ns, [&] {
    if (!broken_ && !Complete(this->*event)) return false;
    if (event == &Stream::before_) before_ = kNone;
    Read();
    return true;
  });
}

/// `condition` is asked with the mutex held. False: it has not become true in time.
template <typename Condition>
bool Stream::AwaitUntil(std::int64_t from_ns, Condition condition) {
  for (;;) {
    {
      const Lock lock(mutex_);
      if (condition()) return true;
    }
    const std::int64_t waited_ns = NowNs() - from_ns;
    if (waited_ns > kAwaitMostNs) return false;
    if (waited_ns < kAwaitAwakeNs) continue;
    const std::int64_t slice_ns = waited_ns / 8 < kAwaitSliceMostNs ? waited_ns / 8 : kAwaitSliceMostNs;
    const timespec slice{0, static_cast<long>(slice_ns)};
    ::nanosleep(&slice, nullptr);
  }
}

void Stream::TryRead() {
  const std::unique_lock<platform::Mutex> lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && count_ > 0) Read();
}

// A thread that waits must not wait for another thread, which may hold the mutex while the driver's queue is full; nor
// may it record an event in a stream that has more to do than what was waited for. In the legacy stream that would be a
// barrier for all blocking streams.
void Stream::EndOpenBatch(const Reading& reading) {
  std::unique_lock<platform::Mutex> lock(mutex_, std::defer_lock);
  if (reading.awaits)
    lock.lock();
  else if (!lock.try_lock())
    return;
  if (reading.waited != nullptr && reading.waited != handle_) return;
  // The handle of a thread's default stream is that of the calling thread.
  const bool may_record = thread_ == 0 || thread_ == reading.thread;
  // A sample without an end is a call that another thread makes now.
  const bool calling = sample_.begin != kNone && sample_.end == kNone;
  if (!broken_ && calls_ > 0 && may_record && !calling && count_ < kSpans) EndBatch();
}

void Stream::ReadAll(bool awaits, std::int64_t from_ns) {
  if (!awaits) return TryRead();
  AwaitUntil(from_ns, [&] {
    if (count_ > 0) Read();
    return broken_ || count_ == 0;
  });
}

void Stream::Become(CudaHandle handle, std::uint64_t thread) {
  const Lock lock(mutex_);
  handle_ = handle;
  thread_ = thread;
}

// The calls of the open batch may have cost as much as the time since the batch before it. A batch of less time is left
// open, so that a loop of launches and queries does not record an event for each.
std::optional<Reading> Stream::AfterQuery(std::int64_t now_ns) {
  const std::unique_lock<platform::Mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  const bool ends_batch = calls_ > 0 && now_ns - ended_ns_ >= core::BatchBounds::kLaunchesLeast.count();
  if (broken_ || (count_ == 0 && !ends_batch)) return std::nullopt;
  return Reading{.open_batches = ends_batch, .waited = handle_};
}

CudaHandle Stream::handle() {
  const Lock lock(mutex_);
  return handle_;
}

void Stream::Leave() {
  const Lock lock(mutex_);
  thread_ = kNobody;
  dense_ = false;
  failures_ = 0;
  sampled_call_ = 0;
  ForgetCalls();
  sample_ = {};
  last_end_ = before_ = kNone;
  batch_ns_ = 0;
  may_await_long_ = true;
  call_ns_ = 0;
}

void Stream::Retire() {
  const Lock lock(mutex_);
  StartAgain();
  broken_ = true;
  failures_ = kFailuresMost;
}

InContext::InContext(CudaHandle context, CudaHandle current) {
  if (current == context || OwnerOf(current) == context) return;
  pushed_ = Driver<CudaResult(CudaHandle)>(kCall_cuCtxPushCurrent_v2)(context) == kSuccess;
}

InContext::~InContext() {
  CudaHandle popped = nullptr;
  if (pushed_) Driver<CudaResult(CudaHandle*)>(kCall_cuCtxPopCurrent_v2)(&popped);
}

}  // namespace weir::shim::cuda
