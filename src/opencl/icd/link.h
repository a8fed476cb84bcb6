// SPDX-License-Identifier: Apache-2.0
// The connection to the executor. A waiting thread reads: one thread at a time is the reader. It dispatches messages,
// and hands the role over when its own wait is over. Other waiting threads sleep on a condition. The library has a
// thread of its own only from the first callback on.
//
//   locks, in the order in which they may be taken:  send  ->  state  ->  arena
//   send:   the ring's producer, ids, each queue's count of commands (which must match the order of messages)
//   state:  the reader's role, pending answers, watched events, tickets, callbacks, maps of memory objects
//   live:   the table of live memory objects and samplers; taken alone
//   A program's own mutex comes before send.
//   No lock is held while a callback of the program runs, or while bytes are copied for it.
//
// In the child of a fork the connection is abandoned: its locks are never taken again, and every use fails.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "opencl/channel/handshake.h"
#include "opencl/channel/limits.h"
#include "opencl/icd/arena.h"
#include "opencl/icd/object.h"
#include "platform/clock.h"
#include "platform/mutex.h"
#include "proto/opencl_message_list.h"

namespace weir::opencl::icd {

namespace wire = proto::cl;

struct Context;
struct Device;
struct Event;
struct Queue;

/// The error of every call on a lost connection.
inline constexpr cl_int kGone = CL_DEVICE_NOT_AVAILABLE;

/// The answer to a request. Written by the reader under the state lock.
struct Answer {
  bool done = false;
  cl_int status = kGone;
  std::vector<std::byte> body;
  Queue* queue = nullptr;      // for a Finish: the queue …
  std::uint64_t sequence = 0;  // … whose commands have ended up to this one
};

/// A range of the arena.
struct Range {
  std::uint64_t offset = 0, bytes = 0;
};

/// For tests and users: WEIR_OPENCL_STATS=1 prints them at exit.
struct LinkStats {
  std::atomic<std::uint64_t> messages{0};      // sent
  std::atomic<std::uint64_t> round_trips{0};   // calls that had to wait for the executor
  std::atomic<std::uint64_t> inline_bytes{0};  // of messages
  std::atomic<std::uint64_t> wakes{0};         // messages that found the executor or its relay asleep
};

class Link {
 public:
  /// This process's connection, which is created if necessary. Null: connecting failed, which is reported once.
  static Link* Current();
  /// This process's connection if there is one.
  static Link* Existing();

  /// Whether the connection is neither lost nor abandoned.
  [[nodiscard]] bool usable() const { return state_of_link_.load(std::memory_order_relaxed) == State::kUsable; }
  [[nodiscard]] const std::vector<Device*>& devices() const { return devices_; }
  [[nodiscard]] LinkStats& stats() { return stats_; }
  [[nodiscard]] const std::string& tag() const { return tag_; }  // the driver and its version, for binaries

  // -- Sending

  /// Holds the send lock.
  class Sending {
   public:
    explicit Sending(Link& link);
    ~Sending();
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;
    /// False: the connection is lost, and nothing is sent.
    [[nodiscard]] bool usable() const { return locked_ && link_.usable(); }
    std::uint32_t NewId();
    /// The first of `count` consecutive ids.
    std::uint32_t NewIds(std::uint32_t count);
    void FreeId(std::uint32_t id);
    /// Waits for room. False: the connection is lost, or the message exceeds the maximum length.
    template <typename M>
    bool Send(const M& message) {
      static_assert(wire::kIsIn<M, wire::FromClient>, "the message is in no list of proto/opencl_*_messages.h");
      const std::size_t bytes = wire::SizeOf(message);
      std::byte* into = Reserve(bytes);
      if (into == nullptr) return false;
      wire::EncodeInto(message, {into, bytes});
      Publish(bytes, CanWait(message));
      return true;
    }

   private:
    /// Messages that start nothing on the device and that no thread waits for. A sleeping executor sees them with the
    /// next other message, or when its wait times out (RingConsumer::Wait).
    template <typename M>
    static bool CanWait([[maybe_unused]] const M& message) {
      if constexpr (std::is_same_v<M, wire::Release>)
        return message.ticket == 0 || (message.ticket & wire::kNobodyWaits) != 0;
      return std::is_same_v<M, wire::CreateBuffer> || std::is_same_v<M, wire::CreateSubBuffer> ||
             std::is_same_v<M, wire::CreateKernel> || std::is_same_v<M, wire::SetArg>;
    }
    std::byte* Reserve(std::size_t bytes);
    void Publish(std::size_t bytes, bool can_wait);
    Link& link_;
    bool locked_ = false;
  };

  /// Sends one message. Returns CL_SUCCESS or the error.
  template <typename M>
  cl_int SendOne(const M& message) {
    Sending sending(*this);
    return sending.usable() && sending.Send(message) ? CL_SUCCESS : (usable() ? CL_OUT_OF_RESOURCES : kGone);
  }
  /// Sends a request, waits for its answer, and returns the answer's status.
  template <typename M>
  cl_int Ask(M& request, Answer& answer) {
    {
      Sending sending(*this);
      if (!sending.usable()) return answer.status = kGone;
      request.request = Expect(answer);
      if (!sending.Send(request))
        return Unexpect(request.request), answer.status = usable() ? CL_OUT_OF_RESOURCES : kGone;
    }
    return Await(answer);
  }
  /// Returns the request number for `answer`. Requires the send lock, before the request is sent. `answer` must live
  /// until it is done or the connection is lost.
  std::uint32_t Expect(Answer& answer);
  void Unexpect(std::uint32_t request);
  cl_int Await(Answer& answer);

  /// Tells the executor that the client has released an object.
  void Release(std::uint32_t id, std::uint64_t ticket = 0);

  // -- Waiting and receiving

  class StateLock {
   public:
    explicit StateLock(Link& link);
    ~StateLock();
    StateLock(const StateLock&) = delete;
    StateLock& operator=(const StateLock&) = delete;
    void Unlock();
    void Lock();

   private:
    Link& link_;
    bool locked_ = false;
  };

  /// What a call waits for; it decides whether the wait counts as a round trip. The answer to the call's own request
  /// counts even if another thread has already received it. Anything else counts only if it has not happened yet.
  enum class Of { kAnswer, kElse };
  /// Waits until `done()`, which is called under the state lock. False: the connection was lost before.
  template <typename P>
  bool WaitUntil(P&& done, Of of = Of::kElse) {
    return WaitUntilDone(
        of, [](void* p) { return (*static_cast<std::remove_reference_t<P>*>(p))(); }, &done);
  }
  /// Processes pending messages without waiting.
  void Drain();
  /// Wakes waiting threads after a state change without a message. Requires the state lock.
  void Wake();

  /// Waits until the executor has carried out all sent messages. Watched events that have ended by then are known to
  /// have ended.
  void Sync();
  /// Watches events that are not yet watched, so that the executor reports their ends.
  void Watch(std::span<Event* const> events);
  /// The same with the send lock held.
  void Watch(Event& event, Sending& sending);

  // -- Callbacks

  /// Runs `callback` on the library's thread without a lock. Requires the state lock.
  void Post(std::function<void()> callback);
  /// Announces a callback: the library's thread reads until it has come. Requires the state lock.
  void ExpectCallback();
  void CallbackCame() { --callbacks_expected_; }
  /// A user event was created, or one that was not set was set or released.
  void UserEventMade() { ++user_events_unset_; }
  void UserEventSet() { --user_events_unset_; }
  /// While it is not 0, a command may wait for a later call of the program.
  [[nodiscard]] std::uint32_t user_events_unset() const { return user_events_unset_.load(); }
  /// Registers the context for notices of errors.
  void WantNotices(Context& context);
  void ForgetNotices(std::uint32_t context_id);

  // -- The arena

  [[nodiscard]] std::byte* arena() const { return arena_base_; }
  /// The tenant's memory: the part of the arena in which buffers lie.
  [[nodiscard]] std::uint64_t memory_bytes() const { return connection_.arena.bytes() - connection_.staging_bytes; }
  /// The part in which contents are staged first. Older executors have none: all parts of the arena are for both.
  [[nodiscard]] std::uint64_t staging_bytes() const {
    return connection_.staging_bytes != 0 ? connection_.staging_bytes : connection_.arena.bytes();
  }
  /// Allocates a range for a buffer. If none is free, waits for ranges that the executor is about to free, or whose
  /// contents are about to be delivered; at most kWaitBesideUserEvents while the program has unset user events, because
  /// those may hold the ranges.
  std::optional<std::uint64_t> AllocateBuffer(std::uint64_t bytes) { return Allocate(bytes, For::kBuffer); }
  /// The same for contents on their way to or from the executor. They may lie where buffers lie, but not vice versa.
  std::optional<std::uint64_t> AllocateStaging(std::uint64_t bytes) { return Allocate(bytes, For::kStaging); }
  /// Frees a range that the executor does not use.
  void Free(Range range);
  /// The range will be freed with Delivered, when the executor has written its contents. Requires the state lock.
  void WillDeliver(Range range) { undelivered_ += range.bytes != 0 ? 1 : 0; }
  /// Frees the range of a read whose data has been delivered, or that has failed. Must be called without a lock.
  void Delivered(Range range);
  /// Until when a call that begins now may wait for what may depend on a user event. 0: no event is unset.
  [[nodiscard]] std::int64_t MayWaitUntilNs() const {
    return user_events_unset() > 0 ? platform::NowNs() + wait_beside_user_events_.count() : 0;
  }
  /// For tests, which need not wait that long.
  void set_wait_beside_user_events(Duration at_most) { wait_beside_user_events_ = at_most; }
  /// Returns a ticket to send with a message. When the executor reports it as freed, the range is freed and `then` is
  /// posted. `nobody_waits`: kNobodyWaits if the report may wait for the next other message.
  std::uint64_t NewTicket(Range range, std::vector<std::function<void()>> then = {}, std::uint64_t nobody_waits = 0);
  /// Whether the ticket has not been reported yet. Requires the state lock.
  [[nodiscard]] bool Owes(std::uint64_t ticket) const { return tickets_.contains(ticket); }

  // -- Live memory objects and samplers, for arguments of unknown type

  void Enlist(const Object& object);
  void Delist(const Object& object);
  /// Kind, serial and id of the live object at this address.
  struct Enlisted {
    Kind kind{};
    std::uint64_t serial = 0;
    std::uint32_t id = 0;
  };
  bool Find(const void* handle, Enlisted& found);

 private:
  enum class State : std::uint8_t { kUsable, kLost, kAbandoned };
  struct Ticket {
    Range range;
    std::vector<std::function<void()>> then;
  };

  enum class For : std::uint8_t { kBuffer, kStaging };

  explicit Link(Connection connection);
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes, For use);
  static void AbandonAll();
  static Link* MakeCurrent(const std::string& path);
  Status ReadFacts();
  bool WaitUntilDone(Of of, bool (*done)(void*), void* context);
  void ReadOne(Duration at_most);
  void Dispatch(std::span<const std::byte> message);
  void OnReply(const wire::Reply& reply);
  void OnEventDone(const wire::EventDone& done);
  void OnFreed(std::uint64_t ticket);
  bool Owed();  // a ticket has not been reported
  void OnNotice(const wire::Notice& notice);
  void LookAtSocket();
  void Lose(const std::string& why);
  void WakeCallbackThread();
  void RunCallbacks();
  static void* CallbackThread(void* link);

  Connection connection_;
  std::byte* arena_base_ = nullptr;
  std::atomic<State> state_of_link_{State::kUsable};
  std::atomic<std::int64_t> looked_ns_{0};  // last check of the socket
  std::atomic<std::uint32_t> user_events_unset_{0};
  Duration wait_beside_user_events_ = kWaitBesideUserEvents;
  Link* before_ = nullptr;  // earlier connections of this process
  std::vector<Device*> devices_;
  std::string tag_;
  LinkStats stats_;

  platform::Mutex send_;
  std::vector<std::uint32_t> free_ids_;
  std::uint32_t next_id_ = 1;
  std::uint32_t next_request_ = 1;

  pthread_mutex_t state_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_;
  bool reading_ = false;
  pthread_t reader_{};  // valid while reading_
  unsigned followers_ = 0;
  std::unordered_map<std::uint32_t, Answer*> answers_;
  std::vector<Event*> watched_;  // by id
  std::unordered_map<std::uint64_t, Ticket> tickets_;
  std::uint64_t next_ticket_ = 1;
  std::uint64_t hurried_tickets_ = 0;  // tickets without kNobodyWaits
  std::uint64_t undelivered_ = 0;      // ranges of reads
  pthread_cond_t callbacks_changed_;   // used only by the callback thread, which other threads' answers must not wake
  std::deque<std::function<void()>> callbacks_;
  std::uint64_t callbacks_expected_ = 0;
  std::map<std::uint32_t, Context*> wants_notices_;
  bool callback_thread_ = false;

  platform::Mutex arena_;
  ArenaRanges buffer_ranges_, staging_ranges_;
  platform::Mutex live_;
  std::unordered_map<const void*, Enlisted> live_objects_;

  std::array<std::byte, wire::kMessageBytesMax> message_;  // used by the reader
};

}  // namespace weir::opencl::icd
