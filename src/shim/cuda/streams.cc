// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/streams.h"

#include <ctime>
#include <map>
#include <memory>
#include <tuple>

#include "platform/clock.h"
#include "platform/pthread_lock.h"

namespace weir::shim::cuda {
namespace {

using Lock = platform::PthreadLock;
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

CudaResult Query(CudaHandle event) { return Driver<CudaResult(CudaHandle)>(kCall_cuEventQuery)(event); }

struct Context {
  explicit Context(CudaHandle handle) : clock(handle) {}
  ContextClock clock;
  char renderer[256] = "";
};

// Never freed: a program may make calls until it ends.
struct Known {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::map<CudaHandle, Context*> contexts;
  // By context, handle, and the thread of a per-thread default stream.
  std::map<std::tuple<CudaHandle, CudaHandle, const void*>, Stream*> streams;
};
Known& Registry() {
  static auto* known = new Known;
  return *known;
}

Context* ContextOf(Known& known, CudaHandle handle) {
  Context*& context = known.contexts[handle];
  if (context != nullptr) return context;
  context = new Context(handle);
  int device = 0;
  if (Driver<CudaResult(int*)>(kCall_cuCtxGetDevice)(&device) != kSuccess ||
      Driver<CudaResult(char*, int, int)>(kCall_cuDeviceGetName)(context->renderer, sizeof context->renderer, device) !=
          kSuccess)
    context->renderer[0] = '\0';
  return context;
}

void AwaitOf(const void* key, int shares) { static_cast<Stream*>(const_cast<void*>(key))->Await(shares != 0); }

}  // namespace

bool ContextClock::TimeOf(CudaHandle event, double& ns) const {
  float ms = 0;
  if (Driver<CudaResult(float*, CudaHandle, CudaHandle)>(kCall_cuEventElapsedTime)(&ms, references_[0], event) !=
      kSuccess)
    return false;
  ns = origin_ns_ + static_cast<double>(ms) * kNsPerMs;
  return true;
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

std::int64_t ContextClock::Between(CudaHandle begin, CudaHandle end) {
  const Lock lock(mutex_);
  double begin_ns = 0, end_ns = 0;
  if (references_[0] == nullptr || !TimeOf(begin, begin_ns) || !TimeOf(end, end_ns)) return -1;
  return static_cast<std::int64_t>(end_ns - begin_ns);
}

void ContextClock::Forget() {
  const Lock lock(mutex_);
  references_ = {};
  origin_ns_ = 0;
  until_ns_ = kNever;
  renewing_ = false;
  renewed_ns_ = 0;
}

std::int64_t ContextClock::Take(CudaHandle begin, CudaHandle end) {
  const Lock lock(mutex_);
  double begin_ns = 0, end_ns = 0;
  if (references_[0] == nullptr || !TimeOf(begin, begin_ns) || !TimeOf(end, end_ns)) return -1;
  const double from_ns = begin_ns > until_ns_ ? begin_ns : until_ns_;
  const std::int64_t taken_ns = end_ns > from_ns ? static_cast<std::int64_t>(end_ns - from_ns) : 0;
  if (end_ns > until_ns_) until_ns_ = end_ns;
  if (double next_ns = 0; renewing_ && Query(references_[1]) == kSuccess && TimeOf(references_[1], next_ns)) {
    std::swap(references_[0], references_[1]);
    origin_ns_ = next_ns;
    renewing_ = false;
  }
  return taken_ns;
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

/// After the program has reset its context, another one may have the same handle, but not the events.
void Stream::StartAgain() {
  events_.fill(nullptr);
  first_ = count_ = 0;
  dense_ = broken_ = to_end_ = false;
  sample_ = {};
  last_end_ = before_ = kNone;
  sampled_call_ = calls_ = 0;
  clock_.Forget();
}

void Stream::Begin(bool ends_batch) {
  const Lock lock(mutex_);
  if (broken_ && failures_ < kFailuresMost) {
    ++failures_;
    StartAgain();
  }
  const unsigned call = calls_++;
  if (broken_ || dense_ || sample_.begin != kNone) return;
  if (call != sampled_call_ && !ends_batch) return;
  to_end_ = !Complete(last_end_);
  sampled_call_ = call;
  if (!broken_) Record(sample_.begin);
}

void Stream::End(bool ends_batch, std::int64_t now_ns) {
  const Lock lock(mutex_);
  if (broken_) return;
  if (sample_.begin != kNone && sample_.end == kNone && (!to_end_ || ends_batch) && !Record(sample_.end)) return;
  if (!ends_batch) return;
  if (dense_)
    EndDense();
  else
    EndSparse();
  calls_ = 0;
  clock_.Renew(handle_, now_ns);
  Read();
}

void Stream::EndDense() {
  const bool ran_empty = Complete(last_end_);
  std::size_t end = kNone;
  if (broken_ || !Record(end)) return;
  if (ran_empty) {
    NotMeasured();
    dense_ = false;
    sampled_call_ = 0;
  } else {
    Add({.begin = last_end_, .end = end, .batch_end = end, .calls = calls_, .stands_for = calls_});
  }
  before_ = last_end_;
  last_end_ = end;
}

void Stream::EndSparse() {
  if (sample_.end == kNone) return;
  std::size_t end = sample_.end;
  if (calls_ - sampled_call_ > 1 && !to_end_ && !Record(end)) return;
  sample_.batch_begin = last_end_;
  sample_.batch_end = end;
  sample_.calls = to_end_ ? calls_ - sampled_call_ : 1;
  sample_.stands_for = calls_;
  Add(sample_);
  before_ = last_end_;
  last_end_ = end;
  dense_ = to_end_;
  sample_ = {};
  random_ = random_ * 1664525 + 1013904223;
  sampled_call_ = (random_ >> 8) % calls_;
}

/// Charges the open batch what its calls have cost lately.
void Stream::NotMeasured() {
  if (const weir_cuda_hooks* hooks = Hooks()) hooks->report_time(1, 1, static_cast<long long>(call_ns_ * calls_));
}

/// A span that finds no room is not charged.
void Stream::Add(const Span& span) {
  if (count_ == kSpans) Read();
  if (count_ == kSpans) return;
  spans_[(first_ + count_) % kSpans] = span;
  ++count_;
  if (const weir_cuda_hooks* hooks = Hooks()) hooks->report_time(1, 0, 0);
}

void Stream::Read() {
  std::int64_t known_ns = 0;
  unsigned known = 0;
  while (count_ > 0 && !broken_ && Complete(spans_[first_].batch_end)) {
    const Span& span = spans_[first_];
    std::int64_t span_ns = clock_.Take(events_[span.begin], events_[span.end]);
    if (span_ns < 0) {
      broken_ = true;
      break;
    }
    constexpr double kNew = 0.125;
    const double call_ns = static_cast<double>(span_ns) / span.calls;
    call_ns_ += (call_ns_ == 0 ? 1 : kNew) * (call_ns - call_ns_);
    if (span.stands_for > span.calls) {
      span_ns = static_cast<std::int64_t>(call_ns * span.stands_for);
      // The batch cannot have worked for longer than from the end of the one before it to its own.
      const std::int64_t most_ns =
          span.batch_begin != kNone ? clock_.Between(events_[span.batch_begin], events_[span.batch_end]) : span_ns;
      if (most_ns >= 0 && span_ns > most_ns) span_ns = most_ns;
    }
    batch_ns_ = span_ns;
    known_ns += span_ns;
    ++known;
    first_ = (first_ + 1) % kSpans;
    --count_;
  }
  const weir_cuda_hooks* hooks = Hooks();
  if (hooks != nullptr && known > 0) hooks->report_time(0, known, known_ns);
}

void Stream::Await(bool shares) {
  const std::int64_t from_ns = NowNs();
  if (AwaitEvent(&Stream::before_, from_ns) && shares && batch_ns_ >= kLongNs) AwaitEvent(&Stream::last_end_, from_ns);
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

Stream* FindStream(CudaHandle handle, bool per_thread_default) {
  constexpr std::uintptr_t kLegacy = 1, kPerThread = 2;
  CudaHandle context = nullptr;
  if (Driver<CudaResult(CudaHandle*)>(kCall_cuCtxGetCurrent)(&context) != kSuccess || context == nullptr)
    return nullptr;
  static thread_local const char kThread = 0;
  if (handle == nullptr) handle = reinterpret_cast<CudaHandle>(per_thread_default ? kPerThread : kLegacy);
  const void* thread = handle == reinterpret_cast<CudaHandle>(kPerThread) ? &kThread : nullptr;
  static thread_local struct {
    CudaHandle context, handle;
    Stream* stream;
  } last{};
  if (last.context == context && last.handle == handle) return last.stream;
  try {
    Known& known = Registry();
    const Lock lock(known.mutex);
    const auto found = known.streams.find({context, handle, thread});
    if (found != known.streams.end()) {
      last = {context, handle, found->second};
      return found->second;
    }
    if (known.streams.size() >= kStreamsMost) return nullptr;
    Context* owner = ContextOf(known, context);
    auto* made = new Stream(owner->clock, handle, owner->renderer);
    known.streams.emplace(std::tuple{context, handle, thread}, made);
    last = {context, handle, made};
    return made;
  } catch (...) {
    return nullptr;  // out of memory
  }
}

bool IsCapturing(CudaHandle handle, bool per_thread_default) {
  int status = 0;
  const CudaResult result = Driver<CudaResult(CudaHandle, int*)>(
      per_thread_default ? kCall_cuStreamIsCapturing_ptsz : kCall_cuStreamIsCapturing)(handle, &status);
  return result != kSuccess || status != 0;
}

}  // namespace weir::shim::cuda
