// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/driver.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "platform/pthread_lock.h"

namespace weir::emulator::gl {
namespace {

using Lock = platform::PthreadLock;
constexpr Instant kNever = Instant::max();
std::atomic<std::uint64_t> drivers{0};

}  // namespace

Driver::Driver(std::function<Duration()> cpu, std::function<Instant()> clock)
    : serial_(++drivers), cpu_(std::move(cpu)), clock_(std::move(clock)) {
  ::pthread_mutex_init(&mutex_, nullptr);
  pthread_condattr_t attributes;
  ::pthread_condattr_init(&attributes);
  ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  ::pthread_cond_init(&changed_, &attributes);
  ::pthread_condattr_destroy(&attributes);
}

Driver::~Driver() {
  port_.reset();  // first, because its completions use the other members
  ::pthread_cond_destroy(&changed_);
  ::pthread_mutex_destroy(&mutex_);
}

void Driver::Use(std::unique_ptr<Port> port) noexcept try {
  port_ = std::move(port);
  cost_ = port_->cost();
  measured_ = cost_.measured();
  renderer_ = port_->name() + " (emulated)";
  active_ = true;
} catch (...) {
  active_ = false;
}

void Driver::Abandon(const char* why) noexcept {
  if (!active_.exchange(false)) return;
  std::fprintf(stderr, "weir: %s; '%s' runs on without the emulated GPU's timing\n", why, renderer_.c_str());
  const Lock lock(mutex_);
  ::pthread_cond_broadcast(&changed_);
}

void Driver::Lose() noexcept {
  lost_ = true;
  Abandon("the emulated GPU is lost");
}

void Driver::AbandonInChild() noexcept {
  active_ = false;
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  if (port_) port_->CloseInChild();
}

// A thread has one stream in each driver; tests make several drivers one after the other.
Stream& Driver::ThreadStream() {
  static thread_local std::pair<std::uint64_t, std::unique_ptr<Stream>> mine;
  if (mine.first != serial_ || !mine.second) mine = {serial_, std::make_unique<Stream>()};
  return *mine.second;
}

void Driver::Drew() noexcept try {
  if (active_) ThreadStream().Drew();
} catch (...) {
  Abandon("out of memory");
}

bool Driver::Drawn() noexcept try { return active_ && ThreadStream().drawn(); } catch (...) {
  return false;
}

bool Driver::Swaps() noexcept try { return active_ && ThreadStream().swaps(); } catch (...) {
  return false;
}

Duration Driver::CpuSinceLast() {
  const Duration now = cpu_();
  const Lock lock(mutex_);
  return std::max(Duration{}, now - std::exchange(cpu_last_, now));
}

Port::Done Driver::Completion(BatchPtr batch, Kind kind) {
  return [this, batch = std::move(batch), kind](Instant began, Instant ended) { Complete(*batch, kind, began, ended); };
}

void Driver::Complete(Batch& batch, Kind kind, Instant began, Instant ended) noexcept {
  const Lock lock(mutex_);
  if (kind == Kind::kBatch) --in_queue_;
  batch.began = began;
  batch.ended = ended;
  batch.state = Batch::State::kDone;
  ::pthread_cond_broadcast(&changed_);
}

void Driver::CloseBatch(Stream& stream) {
  const Duration work = stream.TakeWork(cost_, measured_ ? CpuSinceLast() : Duration{});
  const Instant now = clock_();
  const Lock lock(mutex_);
  stream.Close(now, work);
}

void Driver::TakeRoom() {
  const Lock lock(mutex_);
  while (active_ && in_queue_ >= port_->queue_depth()) ::pthread_cond_wait(&changed_, &mutex_);
  ++in_queue_;
}

void Driver::CloseDrawn(Stream& stream) {
  if (stream.drawn()) CloseBatch(stream);
}

void Driver::SubmitClosed(Stream& stream) {
  if (!stream.has_closed()) return;
  std::vector<Stream::Command> commands;
  {
    const Lock lock(mutex_);
    commands = stream.TakeClosed();
  }
  // Submitted without the lock, because a completion takes it.
  for (const Stream::Command& command : commands) {
    TakeRoom();
    const Instant now = clock_();
    if (!port_->Submit(command.work, Completion(command.batch, Kind::kBatch)))
      Complete(*command.batch, Kind::kBatch, now, now);
  }
}

void Driver::SubmitAll(Stream& stream) {
  if (stream.drawn()) {
    CloseBatch(stream);
  } else {
    const Instant now = clock_();
    const Lock lock(mutex_);
    stream.Close(now, {});
  }
  SubmitClosed(stream);
}

void Driver::Flush() noexcept try {
  if (!active_) return;
  SubmitAll(ThreadStream());
  ThreadStream().Flushed(clock_());
} catch (...) {
  Abandon("out of memory");
}

bool Driver::WaitUntil(const std::shared_ptr<const Batch>& batch, Instant deadline) {
  while (active_ && batch && !batch->Done()) {
    if (deadline == kNever) {
      ::pthread_cond_wait(&changed_, &mutex_);
      continue;
    }
    if (clock_() >= deadline) return false;
    const std::int64_t ns = NsOf(deadline);
    const timespec until{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    ::pthread_cond_timedwait(&changed_, &mutex_, &until);
  }
  return true;
}

void Driver::Finish() noexcept try {
  if (!active_) return;
  Flush();
  const BatchPtr last = ThreadStream().last();
  const Lock lock(mutex_);
  WaitUntil(last, kNever);
} catch (...) {
  Abandon("out of memory");
}

void Driver::Swap(unsigned interval) noexcept try {
  if (!active_) return;
  Stream& stream = ThreadStream();
  CloseBatch(stream);
  SubmitClosed(stream);
  BatchPtr shown = stream.last();
  if (interval > 0) {
    auto present = std::make_shared<Batch>();
    present->state = Batch::State::kSubmitted;
    if (port_->Present(interval, Completion(present, Kind::kPresent))) shown = std::move(present);
  }
  const Instant now = clock_();
  const Lock lock(mutex_);
  stream.EndFrame(std::move(shown), now);
  while (const BatchPtr oldest = active_ ? stream.Oldest(kFramesUnderWay) : nullptr) WaitUntil(oldest, kNever);
} catch (...) {
  Abandon("out of memory");
}

void Driver::Fence(const void* fence) noexcept try {
  if (!active_ || fence == nullptr) return;
  CloseDrawn(ThreadStream());
  SubmitClosed(ThreadStream());
  const BatchPtr last = ThreadStream().last();
  const Lock lock(mutex_);
  if (last && !last->Done() && fences_.size() < kObjectsMax) fences_[fence] = last;
} catch (...) {
  Abandon("out of memory");
}

void Driver::ForgetFence(const void* fence) noexcept {
  const Lock lock(mutex_);
  fences_.erase(fence);
}

bool Driver::Signaled(const void* fence) noexcept {
  if (!active_) return true;
  const Lock lock(mutex_);
  const auto found = fences_.find(fence);
  return found == fences_.end() || found->second->Done();
}

bool Driver::WaitFence(const void* fence, std::uint64_t timeout_ns) noexcept try {
  if (!active_) return true;
  const Instant now = clock_();
  const auto left = static_cast<std::uint64_t>((kNever - now).count());
  const Lock lock(mutex_);
  const auto found = fences_.find(fence);
  if (found == fences_.end()) return true;
  const std::shared_ptr<const Batch> batch = found->second;  // the fence may be deleted meanwhile
  return WaitUntil(batch, timeout_ns >= left ? kNever : now + Duration{static_cast<std::int64_t>(timeout_ns)});
} catch (...) {
  return true;
}

void Driver::Remember(Query query, const Times& times) {
  const Lock lock(mutex_);
  if (queries_.size() < kObjectsMax || queries_.contains(query)) queries_[query] = times;
}

void Driver::BeginElapsed(Query query) noexcept try {
  if (!active_) return;
  CloseDrawn(ThreadStream());
  Remember(query, {.begin = ThreadStream().Begin(), .end = {}, .elapsed = true});
  const Lock lock(mutex_);
  if (elapsed_.size() < kObjectsMax) elapsed_[query.context] = query.name;
} catch (...) {
  Abandon("out of memory");
}

void Driver::EndElapsed(const void* context) noexcept try {
  if (!active_) return;
  CloseDrawn(ThreadStream());
  const Timestamp end = ThreadStream().End();
  const Lock lock(mutex_);
  const auto open = elapsed_.find(context);
  if (open == elapsed_.end()) return;
  const auto found = queries_.find({context, open->second});
  elapsed_.erase(open);
  if (found != queries_.end()) found->second.end = end;
} catch (...) {
  Abandon("out of memory");
}

void Driver::Counter(Query query) noexcept try {
  if (!active_) return;
  Stream& stream = ThreadStream();
  if (!stream.drawn()) return Remember(query, {.begin = {}, .end = stream.Begin()});
  CloseBatch(stream);
  Remember(query, {.begin = {}, .end = stream.End()});
} catch (...) {
  Abandon("out of memory");
}

void Driver::ForgetQuery(Query query) noexcept {
  const Lock lock(mutex_);
  queries_.erase(query);
}

Driver::Answer Driver::Result(Query query, bool wait, std::uint64_t& value_ns) noexcept try {
  if (!active_) return Answer::kNotOurs;
  Stream& stream = ThreadStream();
  Times times;
  bool open = false, closed = false;
  {
    const Lock lock(mutex_);
    const auto found = queries_.find(query);
    if (found == queries_.end()) return Answer::kNotOurs;
    times = found->second;
    for (const Timestamp& stamp : {times.begin, times.end}) {
      open |= stream.IsOpen(stamp.batch.get());
      closed |= stream.IsClosed(stamp.batch.get());
    }
  }
  if (open) {
    SubmitAll(stream);
  } else if (closed) {
    SubmitClosed(stream);
  }
  const Lock lock(mutex_);
  for (const Timestamp& stamp : {times.begin, times.end}) {
    if (stamp.Known()) continue;
    // The batch is in the stream of another thread, which may never submit it.
    if (stamp.batch->Held()) return Answer::kNotOurs;
    if (!wait) return Answer::kPending;
    WaitUntil(stamp.batch, kNever);
    if (!active_) return Answer::kNotOurs;
  }
  const Instant end = times.end.At();
  const Instant begin = times.elapsed ? std::min(times.begin.At(), end) : Instant{};
  value_ns = static_cast<std::uint64_t>((end - begin).count());
  return Answer::kKnown;
} catch (...) {
  return Answer::kNotOurs;
}

}  // namespace weir::emulator::gl
