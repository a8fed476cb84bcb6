// SPDX-License-Identifier: Apache-2.0
// The connection to the executor. Whoever waits reads: one thread at a time has the reader's role, dispatches what
// comes, and hands over when it has what it waited for; the others sleep on a condition. A thread of our own exists
// only from the first callback on.
//
//   locks, in the order in which they may be taken:  send  ->  state  ->  arena
//   send:   the ring's producer, ids, each queue's count of commands (they must agree with the order of messages)
//   state:  who reads, answers that are waited for, watched events, tickets, callbacks, maps of memory objects
//   No lock is held while a callback of the program runs, nor while bytes are copied for it.
//
// In the child of a fork a connection is abandoned: it is never locked again, and every use of it fails.
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
#include "opencl/icd/arena.h"
#include "opencl/icd/object.h"
#include "proto/opencl_messages.h"

namespace weir::opencl::icd {

namespace wire = proto::cl;

struct Context;
struct Device;
struct Event;
struct Queue;

/// The error of every call on a connection that is gone.
inline constexpr cl_int kGone = CL_DEVICE_NOT_AVAILABLE;

/// What a request waits for. Written by the reader, under the state lock.
struct Answer {
  bool done = false;
  cl_int status = kGone;
  std::vector<std::byte> body;
  Queue* queue = nullptr;      // of a Finish: this queue …
  std::uint64_t sequence = 0;  // … has ended its commands up to this one
};

/// A range of the arena.
struct Range {
  std::uint64_t offset = 0, bytes = 0;
};

/// For tests and for people: WEIR_OPENCL_STATS=1 prints them at the end.
struct LinkStats {
  std::atomic<std::uint64_t> messages{0};      // sent
  std::atomic<std::uint64_t> round_trips{0};   // calls that had to wait for the executor
  std::atomic<std::uint64_t> inline_bytes{0};  // of messages
  std::atomic<std::uint64_t> wakes{0};         // messages that found the executor, or its relay, asleep
};

class Link {
 public:
  /// This process's connection, made if there is none. Null: nobody to connect to; that was said once.
  static Link* Current();
  /// The connection of this process if it has one.
  static Link* Existing();

  /// Not lost, and of this process.
  [[nodiscard]] bool usable() const { return state_of_link_.load(std::memory_order_relaxed) == State::kUsable; }
  [[nodiscard]] const std::vector<Device*>& devices() const { return devices_; }
  [[nodiscard]] LinkStats& stats() { return stats_; }
  [[nodiscard]] const std::string& tag() const { return tag_; }  // of binaries: the driver and its version

  // -- Sending
  // ---------------------------------------------------------------------------------------------------------

  /// Holds the send lock.
  class Sending {
   public:
    explicit Sending(Link& link);
    ~Sending();
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;
    /// False: the connection is gone, and nothing is sent.
    [[nodiscard]] bool usable() const { return locked_ && link_.usable(); }
    std::uint32_t NewId();
    /// The first of `count` ids in a row.
    std::uint32_t NewIds(std::uint32_t count);
    void FreeId(std::uint32_t id);
    /// Waits for room. False: the connection is gone, or the message is longer than messages may be.
    template <typename M>
    bool Send(const M& message) {
      const std::size_t bytes = wire::SizeOf(message);
      std::byte* into = Reserve(bytes);
      if (into == nullptr) return false;
      wire::EncodeInto(message, {into, bytes});
      Publish(bytes, CanWait(message));
      return true;
    }

   private:
    /// Nothing on the device begins with it, and nobody waits for it: an executor that sleeps hears of it with the next
    /// message that can't, or when it looks by itself (RingConsumer::Wait's timeout).
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

  /// Sends one message. CL_SUCCESS, or why not.
  template <typename M>
  cl_int SendOne(const M& message) {
    Sending sending(*this);
    return sending.usable() && sending.Send(message) ? CL_SUCCESS : (usable() ? CL_OUT_OF_RESOURCES : kGone);
  }
  /// Sends a request and waits for its answer, whose status is returned.
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
  /// The number under which `answer` will come. Under the send lock, before the request is sent; the answer must live
  /// until it is done or the connection is gone.
  std::uint32_t Expect(Answer& answer);
  void Unexpect(std::uint32_t request);
  cl_int Await(Answer& answer);

  /// Tells the executor that an object of ours is gone.
  void Release(std::uint32_t id, std::uint64_t ticket = 0);

  // -- Waiting and receiving
  // -------------------------------------------------------------------------------------------

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

  /// What is waited for: the answer to what this call has sent is a round trip even where another thread has taken it
  /// in by now; anything else is one only if it has not happened yet.
  enum class Of { kAnswer, kElse };
  /// Until `done()`, asked under the state lock. False: the connection is gone, and it isn't done.
  template <typename P>
  bool WaitUntil(P&& done, Of of = Of::kElse) {
    return WaitUntilDone(
        of, [](void* p) { return (*static_cast<std::remove_reference_t<P>*>(p))(); }, &done);
  }
  /// Takes in what has come, without waiting.
  void Drain();
  /// Something that a waiting thread may wait for has changed without a message. Under the state lock.
  void Wake();

  /// Waits until the executor has carried out what was sent; whatever watched event had ended then is known to have.
  void Sync();
  /// Watches events that nobody watches yet: each will end some day, by the executor's word.
  void Watch(std::span<Event* const> events);
  /// The same under the send lock.
  void Watch(Event& event, Sending& sending);

  // -- Callbacks
  // -------------------------------------------------------------------------------------------------------

  /// Runs `callback` on our thread, with no lock held. Under the state lock.
  void Post(std::function<void()> callback);
  /// A callback is to be expected: somebody has to read until it came. Under the state lock.
  void ExpectCallback();
  void CallbackCame() { --callbacks_expected_; }
  /// The context wants to hear what goes wrong.
  void WantNotices(Context& context);
  void ForgetNotices(std::uint32_t context_id);

  // -- The arena
  // -------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::byte* arena() const { return arena_base_; }
  [[nodiscard]] std::uint64_t arena_bytes() const { return connection_.arena.bytes(); }
  /// A free range. Where there is none now it waits for those that the executor is about to free.
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes);
  /// Gives back a range that the executor doesn't use.
  void Free(Range range);
  /// A number to send along with a message: when the executor says that it is freed, the range is given back and
  /// `then` is posted. `nobody_waits`: kNobodyWaits when that may be heard of with what comes next.
  std::uint64_t NewTicket(Range range, std::vector<std::function<void()>> then = {}, std::uint64_t nobody_waits = 0);
  /// This ticket has not come back. Under the state lock.
  [[nodiscard]] bool Owes(std::uint64_t ticket) const { return tickets_.contains(ticket); }

  // -- Live memory objects and samplers, for arguments that nothing is known of
  // ----------------------------------------

  void Enlist(const Object& object);
  void Delist(const Object& object);
  /// Kind and serial of the live object at this address.
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

  explicit Link(Connection connection);
  static void AbandonAll();
  static Link* MakeCurrent(const std::string& path);
  Status ReadFacts();
  bool WaitUntilDone(Of of, bool (*done)(void*), void* context);
  void ReadOne(Duration at_most);
  void Dispatch(std::span<const std::byte> message);
  void OnReply(const wire::Reply& reply);
  void OnEventDone(const wire::EventDone& done);
  void OnFreed(std::uint64_t ticket);
  bool Owed();  // a ticket has not come back
  void OnNotice(const wire::Notice& notice);
  void LookAtSocket();
  void Lose(const std::string& why);
  void WakeCallbackThread();
  void RunCallbacks();
  static void* CallbackThread(void* link);

  Connection connection_;
  std::byte* arena_base_ = nullptr;
  std::atomic<State> state_of_link_{State::kUsable};
  std::atomic<std::int64_t> looked_ns_{0};  // at the socket
  Link* before_ = nullptr;                  // the connections that this process had before
  std::vector<Device*> devices_;
  std::string tag_;
  LinkStats stats_;

  pthread_mutex_t send_ = PTHREAD_MUTEX_INITIALIZER;
  std::vector<std::uint32_t> free_ids_;
  std::uint32_t next_id_ = 1;
  std::uint32_t next_request_ = 1;

  pthread_mutex_t state_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_;
  bool reading_ = false;
  pthread_t reader_{};  // while reading_
  unsigned followers_ = 0;
  std::unordered_map<std::uint32_t, Answer*> answers_;
  std::vector<Event*> watched_;  // by id
  std::unordered_map<std::uint64_t, Ticket> tickets_;
  std::uint64_t next_ticket_ = 1;
  std::uint64_t hurried_tickets_ = 0;  // of tickets_, those without kNobodyWaits
  pthread_cond_t callbacks_changed_;   // its thread's own: others' answers don't wake it
  std::deque<std::function<void()>> callbacks_;
  std::uint64_t callbacks_expected_ = 0;
  std::map<std::uint32_t, Context*> wants_notices_;
  bool callback_thread_ = false;

  pthread_mutex_t arena_ = PTHREAD_MUTEX_INITIALIZER;
  ArenaRanges ranges_;
  pthread_mutex_t live_ = PTHREAD_MUTEX_INITIALIZER;
  std::unordered_map<const void*, Enlisted> live_objects_;

  std::array<std::byte, wire::kMessageBytesMax> message_;  // the reader's
};

}  // namespace weir::opencl::icd
