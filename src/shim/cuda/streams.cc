// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/streams.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "core/schedule/batch_bounds.h"
#include "platform/clock.h"
#include "platform/mutex.h"
#include "shim/cuda/contexts.h"

namespace weir::shim::cuda {
namespace {

using Lock = std::lock_guard<platform::Mutex>;
using platform::NowNs;

constexpr double kNsPerMs = 1e6;
constexpr std::int64_t kRenewNs = 1'000'000'000;
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
/// Streams beyond this number are not measured, and their calls pass no gate.
constexpr std::size_t kStreamsMost = 1024;

/// Streams that have no object of the program's.
const CudaHandle kLegacy = reinterpret_cast<CudaHandle>(std::uintptr_t{1}),
                 kPerThread = reinterpret_cast<CudaHandle>(std::uintptr_t{2});

/// Increases when handles of streams may have been used again.
std::atomic<unsigned> streams_forgotten{0};

CudaResult Query(CudaHandle event) { return Driver<CudaResult(CudaHandle)>(kCall_cuEventQuery)(event); }

struct Context {
  explicit Context(CudaHandle handle) : clock(handle) {}
  ContextClock clock;
  char renderer[256] = "";
};

// Never freed: a program may make calls until it ends.
struct Known {
  platform::Mutex mutex;
  std::map<CudaHandle, Context*> contexts;
  std::map<StreamKey, Stream*> streams;
};
Known& Registry() {
  static auto* known = new Known;
  return *known;
}

Context* ContextOf(Known& known, const StreamKey& key) {
  Context*& context = known.contexts[key.context];
  if (context != nullptr) return context;
  context = new Context(key.context);
  const InContext in(key.context, CurrentContext());
  int device = 0;
  if (Driver<CudaResult(int*)>(kCall_cuCtxGetDevice)(&device) != kSuccess ||
      Driver<CudaResult(char*, int, int)>(kCall_cuDeviceGetName)(context->renderer, sizeof context->renderer, device) !=
          kSuccess)
    context->renderer[0] = '\0';
  return context;
}

void AwaitOf(const void* key, int shares) { static_cast<Stream*>(const_cast<void*>(key))->Await(shares != 0); }

}  // namespace

CudaResult ContextClock::TimeOf(CudaHandle event, double& ns) const {
  float ms = 0;
  const CudaResult result =
      Driver<CudaResult(float*, CudaHandle, CudaHandle)>(kCall_cuEventElapsedTime)(&ms, references_[0], event);
  ns = origin_ns_ + static_cast<double>(ms) * kNsPerMs;
  return result;
}

void ContextClock::Renew(CudaHandle stream, std::int64_t now_ns) {
  const Lock lock(mutex_);
  if (references_[0] != nullptr && (renewing_ || now_ns - renewed_ns_ < kRenewNs)) return;
  CudaHandle& reference = references_[references_[0] == nullptr ? 0 : 1];
  if (reference == nullptr && Driver<CudaResult(CudaHandle*, unsigned)>(kCall_cuEventCreate)(&reference, 0) != kSuccess)
    return;
  if (Driver<CudaResult(CudaHandle, CudaHandle)>(kCall_cuEventRecord)(reference, stream) != kSuccess) return;
  renewing_ = &reference == &references_[1];
  renewed_ns_ = now_ns;
}

ContextClock::Answer ContextClock::TimesOf(CudaHandle begin, CudaHandle end, Window& window) {
  const Lock lock(mutex_);
  if (references_[0] == nullptr) return Answer::kLater;
  CudaResult result = TimeOf(begin, window.begin_ns);
  if (result == kSuccess) result = TimeOf(end, window.end_ns);
  if (result == kNotReady) return Answer::kLater;
  if (result != kSuccess) {
    // After the program has reset its context, another one may have the same handle, but not the events.
    const CudaResult reference = Query(references_[0]);
    if (reference != kSuccess && reference != kNotReady) {
      references_ = {};
      origin_ns_ = 0;
      renewing_ = false;
      charged_count_ = 0;
      floor_ns_ = kNever;
    }
    return Answer::kFailed;
  }
  if (double next_ns = 0;
      renewing_ && Query(references_[1]) == kSuccess && TimeOf(references_[1], next_ns) == kSuccess) {
    std::swap(references_[0], references_[1]);
    origin_ns_ = next_ns;
    renewing_ = false;
  }
  return Answer::kTime;
}

// Takes free time from the end of the window backwards, so that the amounts of several streams add up, although it is
// not known when within the window the device worked for which.
std::int64_t ContextClock::Charge(const Window& window, double work_ns) {
  const Lock lock(mutex_);
  std::array<Window, kChargedMost + 1> taken{};
  std::size_t count = 0;
  work_ns = std::max(work_ns, 0.0);  // a charge is never taken back
  double left_ns = work_ns, until_ns = window.end_ns;
  const auto take = [&](double from_ns) {
    from_ns = std::max({from_ns, window.begin_ns, floor_ns_, until_ns - left_ns});
    if (from_ns >= until_ns) return;
    taken[count++] = {from_ns, until_ns};
    left_ns -= until_ns - from_ns;
  };
  for (std::size_t i = charged_count_; i-- > 0 && left_ns > 0 && until_ns > window.begin_ns;) {
    if (charged_[i].begin_ns >= until_ns) continue;
    take(charged_[i].end_ns);
    until_ns = std::min(until_ns, charged_[i].begin_ns);
  }
  if (left_ns > 0) take(kNever);
  // Joins what was taken with what was charged before; of too many intervals the earliest are forgotten.
  std::array<Window, 2 * kChargedMost + 1> all{};
  std::merge(charged_.begin(), charged_.begin() + charged_count_, std::make_reverse_iterator(taken.begin() + count),
             taken.rend(), all.begin(), [](const Window& a, const Window& b) { return a.begin_ns < b.begin_ns; });
  std::size_t joined = 0;
  for (std::size_t i = 0; i < charged_count_ + count; ++i) {
    if (joined > 0 && all[i].begin_ns <= all[joined - 1].end_ns)
      all[joined - 1].end_ns = std::max(all[joined - 1].end_ns, all[i].end_ns);
    else
      all[joined++] = all[i];
  }
  const std::size_t forgotten = joined > kChargedMost / 2 ? joined - kChargedMost / 2 : 0;
  if (forgotten > 0) floor_ns_ = std::max(floor_ns_, all[forgotten - 1].end_ns);
  charged_count_ = joined - forgotten;
  std::copy_n(all.begin() + forgotten, charged_count_, charged_.begin());
  return static_cast<std::int64_t>(work_ns - std::max(left_ns, 0.0));
}

Stream::Stream(ContextClock& clock, CudaHandle handle, const char* renderer)
    : clock_(clock), handle_(handle), place_{this, renderer, &AwaitOf} {}

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
  const CudaResult result = Query(events_[event]);
  broken_ = broken_ || (result != kSuccess && result != kNotReady);
  return result == kSuccess;
}

void Stream::StartAgain() {
  events_.fill(nullptr);
  first_ = count_ = 0;
  dense_ = broken_ = false;
  sample_ = {};
  last_end_ = before_ = kNone;
  sampled_call_ = calls_ = 0;
}

void Stream::Begin(bool ends_batch) {
  const Lock lock(mutex_);
  if (broken_ && failures_ < kFailuresMost) {
    ++failures_;
    StartAgain();
  }
  const unsigned call = calls_++;
  if (broken_ || dense_ || sample_.begin != kNone || count_ == kSpans) return;
  if (call == sampled_call_ || ends_batch) Record(sample_.begin);
}

void Stream::End(bool ends_batch, std::int64_t now_ns) {
  const Lock lock(mutex_);
  if (broken_) return;
  if (sample_.begin != kNone && sample_.end == kNone && !Record(sample_.end)) return;
  if (!ends_batch || calls_ == 0) return;  // another thread's call has ended the batch
  if (count_ == kSpans) Read();
  if (count_ < kSpans) EndBatch();  // else the batch goes on
  clock_.Renew(handle_, now_ns);
  Read();
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
  calls_ = 0;
}

void Stream::Add(const Span& span) {
  spans_[(first_ + count_) % kSpans] = span;
  ++count_;
  if (const weir_cuda_hooks* hooks = Hooks()) hooks->report_time(1, 0, 0);
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
    first_ = (first_ + 1) % kSpans;
    --count_;
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
  for (;;) {
    {
      const Lock lock(mutex_);
      if (broken_ || Complete(this->*event)) {
        if (event == &Stream::before_) before_ = kNone;
        Read();
        return true;
      }
    }
    const std::int64_t waited_ns = NowNs() - from_ns;
    if (waited_ns > kAwaitMostNs) return false;
    if (waited_ns < kAwaitAwakeNs) continue;
    const std::int64_t slice_ns = waited_ns / 8 < kAwaitSliceMostNs ? waited_ns / 8 : kAwaitSliceMostNs;
    const timespec slice{0, static_cast<long>(slice_ns)};
    ::nanosleep(&slice, nullptr);
  }
}

StreamKey KeyOf(CudaHandle handle, bool per_thread_default) {
  static thread_local const char kThread = 0;
  if (handle == nullptr) handle = per_thread_default ? kPerThread : kLegacy;
  const bool is_default = handle == kLegacy || handle == kPerThread;
  CudaHandle context = nullptr;
  // A driver that lacks the function has streams of the current context only.
  if (is_default || !DriverHas(kCall_cuStreamGetCtx) ||
      Driver<CudaResult(CudaHandle, CudaHandle*)>(kCall_cuStreamGetCtx)(handle, &context) != kSuccess)
    context = CurrentContext();
  return {OwnerOf(context), handle, is_default ? context : nullptr, handle == kPerThread ? &kThread : nullptr};
}

void ForgetStreams() { streams_forgotten.fetch_add(1, std::memory_order_release); }

Stream* FindStream(CudaHandle handle, bool per_thread_default, CudaHandle current) {
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
    const Lock lock(known.mutex);
    Stream*& stream = known.streams[key];
    if (stream == nullptr) {
      if (known.streams.size() > kStreamsMost) return known.streams.erase(key), nullptr;
      Context* owner = ContextOf(known, key);
      stream = new Stream(owner->clock, handle, owner->renderer);
    }
    last = {current, handle, forgotten, stream};
    return stream;
  } catch (...) {
    return nullptr;  // out of memory
  }
}

InContext::InContext(CudaHandle context, CudaHandle current) {
  if (current == context || OwnerOf(current) == context) return;
  pushed_ = Driver<CudaResult(CudaHandle)>(kCall_cuCtxPushCurrent_v2)(context) == kSuccess;
}

InContext::~InContext() {
  CudaHandle popped = nullptr;
  if (pushed_) Driver<CudaResult(CudaHandle*)>(kCall_cuCtxPopCurrent_v2)(&popped);
}

bool IsCapturing(CudaHandle handle, bool per_thread_default) {
  int status = 0;
  const CudaResult result = Driver<CudaResult(CudaHandle, int*)>(
      per_thread_default ? kCall_cuStreamIsCapturing_ptsz : kCall_cuStreamIsCapturing)(handle, &status);
  return result != kSuccess || status != 0;
}

}  // namespace weir::shim::cuda
