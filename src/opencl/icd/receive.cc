// SPDX-License-Identifier: Apache-2.0
// The receiving side of the connection: waiting, dispatching, and the thread that runs the program's callbacks.
#include <signal.h>

#include <cstdio>

#include "opencl/icd/event.h"
#include "opencl/icd/link.h"
#include "platform/clock.h"

namespace weir::opencl::icd {
namespace {

constexpr Duration kReadWait = milliseconds(50);  // interval of checks of the socket
// Interval at which the callback thread polls for messages that no thread waits for.
constexpr Duration kNoticeEvery = milliseconds(100);

/// Waits for the condition. Requires `mutex`, which the condition belongs to.
void SleepOn(pthread_cond_t& condition, pthread_mutex_t& mutex, Duration at_most) {
  const std::int64_t until = platform::NowNs() + at_most.count();
  const timespec deadline{.tv_sec = until / 1'000'000'000, .tv_nsec = until % 1'000'000'000};
  ::pthread_cond_timedwait(&condition, &mutex, &deadline);
}

}  // namespace

Link::StateLock::StateLock(Link& link) : link_(link) { Lock(); }
Link::StateLock::~StateLock() { Unlock(); }
void Link::StateLock::Lock() {
  // An abandoned lock may be held forever by a thread that does not exist in this process.
  if (link_.state_of_link_.load(std::memory_order_relaxed) == State::kAbandoned) return;
  ::pthread_mutex_lock(&link_.state_);
  locked_ = true;
}
void Link::StateLock::Unlock() {
  if (!locked_) return;
  ::pthread_mutex_unlock(&link_.state_);
  locked_ = false;
}

// -- Waiting ---------------------------------------------------------------------------------------------------------

bool Link::WaitUntilDone(Of of, bool (*done)(void*), void* context) {
  StateLock lock(*this);
  const bool here = done(context);
  if (!here || of == Of::kAnswer) stats_.round_trips.fetch_add(1, std::memory_order_relaxed);
  if (here) return true;
  while (usable()) {
    if (reading_) {
      ++followers_;
      SleepOn(changed_, state_, kReadWait);
      --followers_;
    } else {
      reading_ = true;
      reader_ = ::pthread_self();
      while (usable() && !done(context)) {
        lock.Unlock();
        ReadOne(kReadWait);
        lock.Lock();
      }
      reading_ = false;
      if (followers_ > 0) ::pthread_cond_broadcast(&changed_);
    }
    if (done(context)) return true;
  }
  return done(context);
}

void Link::Drain() {
  if (!usable()) return;
  LookAtSocket();
  StateLock lock(*this);
  if (reading_) return;  // another thread is reading
  if (connection_.channel.in.Empty()) return;
  reading_ = true;
  reader_ = ::pthread_self();
  while (usable() && !connection_.channel.in.Empty()) {
    lock.Unlock();
    ReadOne(Duration{0});
    lock.Lock();
  }
  reading_ = false;
  if (followers_ > 0) ::pthread_cond_broadcast(&changed_);
}

void Link::Wake() {
  if (followers_ > 0) ::pthread_cond_broadcast(&changed_);
  if (reading_ && ::pthread_equal(reader_, ::pthread_self()) == 0) connection_.channel.in.Interrupt();
}

/// Called by the thread that has the reader's role, without a lock.
void Link::ReadOne(Duration at_most) {
  RingConsumer& in = connection_.channel.in;
  auto message = in.Next(message_);
  if (message && message->empty()) {
    if (at_most.count() == 0) return;
    if (!in.Wait(at_most)) return LookAtSocket();
    message = in.Next(message_);
  }
  if (!message) return Lose("it wrote nonsense: " + message.error().message);
  if (!message->empty()) Dispatch(*message);
}

// -- Dispatching -----------------------------------------------------------------------------------------------------

namespace {

template <typename M>
bool DecodeAs(std::span<const std::byte> bytes, M& message) {
  return wire::Decode(bytes, message);
}

}  // namespace

void Link::Dispatch(std::span<const std::byte> message) {
  wire::Header header;
  bool good = wire::ReadHeader(message, header);
  if (good) {
    switch (header.op) {
      case wire::Reply::kOp:
        if (wire::Reply reply; (good = DecodeAs(message, reply))) OnReply(reply);
        break;
      case wire::EventDone::kOp:
        if (wire::EventDone done; (good = DecodeAs(message, done))) OnEventDone(done);
        break;
      case wire::Freed::kOp:
        if (wire::Freed freed; (good = DecodeAs(message, freed))) OnFreed(freed.ticket);
        break;
      case wire::Arrived::kOp: break;  // for relays (docs/network.md); this connection is not a remote one
      case wire::Notice::kOp:
        if (wire::Notice notice; (good = DecodeAs(message, notice))) OnNotice(notice);
        break;
      default: good = (header.flags & wire::kMayIgnore) != 0;
    }
  }
  if (!good) Lose("it sent a malformed message");
}

void Link::OnReply(const wire::Reply& reply) {
  Answer* answer = nullptr;
  {
    const StateLock lock(*this);
    const auto at = answers_.find(reply.request);
    if (at == answers_.end()) return;
    answer = at->second;
    answer->body.insert(answer->body.end(), reply.part.begin(), reply.part.end());
    if (reply.more != 0) return;
    answers_.erase(at);
  }
  // No other thread uses the answer until it is done.
  if (answer->queue != nullptr) EndUpTo(*answer->queue, answer->sequence);
  const StateLock lock(*this);
  answer->status = reply.status;
  answer->done = true;
  Wake();
}

void Link::OnEventDone(const wire::EventDone& done) {
  Event* event = nullptr;
  std::unique_ptr<Arrival> arrival;
  bool alone = true, listed = false;
  {
    const StateLock lock(*this);
    if (done.event >= watched_.size()) return;
    event = std::exchange(watched_[done.event], nullptr);
    if (event == nullptr) return;
    // The driver cannot have queued the command before the client sent it. If its times say so, the driver uses another
    // clock.
    const bool other_clock = done.queued_ns != 0 && done.queued_ns < event->queued_ns;
    const std::uint64_t shift = other_clock ? event->queued_ns - done.queued_ns : 0;
    event->submit_ns = std::max(event->queued_ns, done.submit_ns + shift);
    event->start_ns = std::max(event->submit_ns, done.start_ns + shift);
    event->end_ns = std::max(event->start_ns, done.end_ns + shift);
    // A failed command delivers no data, and may have ended before earlier commands of its queue.
    alone = done.status < 0 || !event->queue || !event->queue->in_order();
    if (alone) arrival = std::move(event->arrival);
    if (alone && event->queue) listed = std::erase(event->queue->arrivals, event) > 0;
  }
  if (listed) Drop(*event);
  const cl_int status = std::min(done.status, CL_COMPLETE);
  if (arrival != nullptr && status < 0) Delivered(arrival->free_after);
  if (arrival != nullptr && status >= 0) Deliver(*this, *arrival);
  if (!alone) EndUpTo(*event->queue, event->sequence);
  {
    const StateLock lock(*this);
    Settle(*event, status);
  }
  Drop(*event);
}

void Link::OnFreed(std::uint64_t number) {
  Ticket ticket;
  {
    const StateLock lock(*this);
    const auto at = tickets_.find(number);
    if (at == tickets_.end()) return;
    ticket = std::move(at->second);
    tickets_.erase(at);
    if ((number & wire::kNobodyWaits) == 0) --hurried_tickets_;
    // Under the lock: a thread in Allocate that no longer finds the ticket must find the range.
    Free(ticket.range);
  }
  const StateLock lock(*this);
  if (!ticket.then.empty()) CallbackCame();
  for (auto& then : ticket.then) Post(std::move(then));
  Wake();
}

void Link::OnNotice(const wire::Notice& notice) {
  const StateLock lock(*this);
  // Context 0: the executor does not know the context, and all registered contexts are notified.
  for (const auto& [id, context] : wants_notices_)
    if (notice.context == 0 || notice.context == id)
      Post([call = context->notify, user = context->notify_user, text = std::string(notice.text)] {
        call(text.c_str(), nullptr, 0, user);
      });
}

void Link::Watch(Event& event, Sending& sending) {
  if (event.id == 0 || event.done() || event.watched.exchange(true)) return;
  Hold(event);
  {
    const StateLock lock(*this);
    if (event.id >= watched_.size()) watched_.resize(std::max<std::size_t>(2 * watched_.size(), event.id + 64));
    watched_[event.id] = &event;
  }
  sending.Send(wire::Watch{.event = event.id});
}

void Link::Watch(std::span<Event* const> events) {
  bool any = false;
  for (const Event* event : events)
    any = any || (event->id != 0 && !event->done() && !event->watched.load(std::memory_order_relaxed));
  if (!any) return;
  Sending sending(*this);
  for (Event* event : events)
    if (sending.usable()) Watch(*event, sending);
}

void Link::Sync() {
  wire::ImageFormats request;  // of no context: answered without work
  Answer answer;
  Ask(request, answer);
}

void Link::Lose(const std::string& why) {
  std::vector<Event*> ended;
  {
    const StateLock lock(*this);
    State usable_before = State::kUsable;
    if (!state_of_link_.compare_exchange_strong(usable_before, State::kLost)) return;
    std::fprintf(stderr, "weir-opencl: lost the executor: %s; OpenCL calls fail from now on\n", why.c_str());
    for (auto& [request, answer] : answers_) {
      answer->status = kGone;
      answer->done = true;
    }
    answers_.clear();
    for (Event*& event : watched_) {
      if (event == nullptr) continue;
      Settle(*event, kGone);
      ended.push_back(std::exchange(event, nullptr));
    }
    for (auto& [number, ticket] : tickets_) {
      if (!ticket.then.empty()) CallbackCame();
      for (auto& then : ticket.then) Post(std::move(then));
    }
    tickets_.clear();
    hurried_tickets_ = 0;
    Wake();
  }
  for (Event* event : ended) Drop(*event);
}

// -- Callbacks -------------------------------------------------------------------------------------------------------

/// Wakes the callback thread or starts it. The thread may also be among those that wait for the executor.
void Link::WakeCallbackThread() {
  ::pthread_cond_signal(&callbacks_changed_);
  if (followers_ > 0) ::pthread_cond_broadcast(&changed_);
  if (callback_thread_) return;
  // Signals of the program must be handled by the program's threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, CallbackThread, this) == 0) {
    ::pthread_detach(thread);
    callback_thread_ = true;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Link::Post(std::function<void()> callback) {
  callbacks_.push_back(std::move(callback));
  WakeCallbackThread();
}

void Link::ExpectCallback() {
  ++callbacks_expected_;
  WakeCallbackThread();
}

void Link::WantNotices(Context& context) {
  const StateLock lock(*this);
  wants_notices_[context.id] = &context;
  WakeCallbackThread();
}

void Link::ForgetNotices(std::uint32_t context_id) {
  const StateLock lock(*this);
  wants_notices_.erase(context_id);
}

void* Link::CallbackThread(void* link) {
  try {
    static_cast<Link*>(link)->RunCallbacks();
  } catch (...) {  // out of memory: callbacks end, the program continues
  }
  return nullptr;
}

void Link::RunCallbacks() {
  for (;;) {
    std::function<void()> callback;
    bool must_read = false;
    {
      const StateLock lock(*this);
      if (!callbacks_.empty()) {
        callback = std::move(callbacks_.front());
        callbacks_.pop_front();
      } else if (callbacks_expected_ > 0 && usable()) {
        must_read = true;
      } else {
        SleepOn(callbacks_changed_, state_, usable() && !wants_notices_.empty() ? kNoticeEvery : Duration(seconds(10)));
      }
    }
    if (callback) {
      callback();
    } else if (must_read) {
      WaitUntil([this] { return !callbacks_.empty() || callbacks_expected_ == 0; });
    } else {
      Drain();
    }
  }
}

}  // namespace weir::opencl::icd
