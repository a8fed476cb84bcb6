// SPDX-License-Identifier: Apache-2.0
// The agent's end of a gate, in a tenant's program (a shim) or in an executor. An agent has no thread of its own. It
// reserves GPU time on entry, settles afterwards, and fails open when the daemon is gone.
//
//              Welcome                     heartbeat stale, or the socket closed
//   detached ───────────▶ attached ────────────────────────────────────────────▶ detached
//    ▲ │ ▲  └── refused, no daemon: try again later, pass everything until then ───┘
//    │ ▼ │
//    full┘  refused because the vGPU has no place for another process: wait until it has one, or the daemon is gone
//
// Bounds: an attempt to attach blocks for at most kAttachWait by default. If the daemon has not answered by then, the
// connection stays open, and the answer is read at a later call without waiting. A wait at the gate or for a place, or
// a delay, ends at most two slices after the daemon has died, or kHeartbeatStaleNs and a slice after it has started to
// hang. A slice is kWaitSlice, or an eighth of a wait at the gate, at most kWaitSliceMax.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "platform/fd.h"
#include "platform/mutex.h"
#include "proto/attach_messages.h"
#include "proto/executor_statistics.h"
#include "proto/gate_layout.h"

namespace weir::gate {

inline constexpr Duration kAttachWait = milliseconds(100);
/// A waiting thread checks after each slice whether the daemon lives.
inline constexpr Duration kWaitSlice = milliseconds(50);
/// The slice of a thread that has waited for seconds (turns.h).
inline constexpr Duration kWaitSliceMax = 8 * kWaitSlice;
/// Time between two attempts to attach while there is no daemon. If a daemon refuses or does not answer, the time
/// doubles at each attempt, up to kAttachRetryMax.
inline constexpr Duration kAttachRetry = milliseconds(100);
inline constexpr Duration kAttachRetryMax = seconds(5);
/// Interval at which the agent checks for a late answer. After kAnswerLatest it connects again.
inline constexpr Duration kAnswerLook = milliseconds(10);
inline constexpr Duration kAnswerLatest = seconds(5);
/// Longest time between two requests for a place. It is shorter than kHeartbeatStaleNs, which is counted from the last
/// refusal, so that a busy daemon has the rest of that time to answer.
inline constexpr Duration kPlaceRetryMax = milliseconds(500);

/// Upper bound of the time for which a process waits for another one whose claim to memory does not fit beside its own.
inline constexpr Duration kClaimWait = seconds(2);

/// Upper bound of a frame interval; longer values are clamped.
inline constexpr Duration kPaceIntervalMax = seconds(10);

struct Attachment;

/// A frame's state from Arrive to Leave. Plain data; a default ticket means "passed without a gate".
struct Ticket {
  Attachment* attachment = nullptr;
  bool entered = false;
  bool waited_for_place = false;  // Arrive has waited: the frame begins at its return, not at its call
  std::int64_t reserved_ns = 0;   // GPU time that Enter reserves, and Charge increases
  std::int64_t wait_ns = 0;       // time that Enter has waited at the gate
};

/// The pace that the daemon requests. Interval 0: no pace, and no need to synchronise.
struct Pace {
  std::int64_t interval_ns = 0;
  proto::FrameSync sync = proto::FrameSync::kAuto;
  proto::FrameStart start = proto::FrameStart::kEarly;
};

/// Times of one frame (CLOCK_MONOTONIC) and its GPU time.
struct Frame {
  std::uint32_t surface = 0;
  std::int64_t begin_ns = 0;    // return of the previous present
  std::int64_t present_ns = 0;  // call of present, before the gate
  std::int64_t submit_ns = 0;   // call of the driver's present, after the gate; 0: at once after the wait
  std::int64_t end_ns = 0;      // return of present, or the end of the frame's work where Leave precedes the present
  std::int64_t gpu_ns = 0;      // in the device's unit: what has become known since the last frame
  // Frames or batches, this one included, whose GPU time is not known yet; kNoFrame: this is a batch of a context that
  // has one in flight at most.
  static constexpr int kNoFrame = -1;
  static constexpr int kEndsNothing = -2;  // no frame or batch ends here: an earlier one has become known
  int unknown = kNoFrame;
  std::int64_t sync_ns = 0;         // spent synchronising with the device
  std::int64_t pace_ns = 0;         // delay before the present that keeps the pace
  std::int64_t predicted_ns = 0;    // of end - submit; 0: no prediction
  std::int64_t interval_ns = 0;     // frame interval in force; 0: none
  std::int64_t start_delay_ns = 0;  // of present - begin: delayed before the program began the frame
  std::uint32_t tasks = 0;          // proto::Record::tasks, with its flags
};

/// The device memory that the daemon grants, in slots of 64 MiB.
struct MemoryOrder {
  std::uint32_t number = 0;  // ExecutorStatistics::order_done answers with this number
  bool elastic = false;      // false: only `limit` is valid
  std::uint32_t limit = 0;   // slots that the vGPU may hold; if not elastic: limit of its buffers, 0: none
  std::uint32_t here = 0;    // its assigned slots: contents beyond these must be evicted
  std::uint32_t max = 0;     // upper bound of one command's memory; 0: no limit
  friend bool operator==(const MemoryOrder&, const MemoryOrder&) = default;
};

/// The memory limit of the vGPU, and what of it is in use; in bytes.
struct MemoryUse {
  std::uint64_t limit = 0;  // 0: none
  std::uint64_t held = 0;   // by all processes of the vGPU; by this process alone while it is not attached
};

class Agent {
 public:
  /// `attach_path`: the vGPU's attach socket; empty: the agent never attaches. `program` is a name for messages.
  Agent(std::string attach_path, proto::Api api, std::string program);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Begins a frame: attaches if an attempt is due, and reads the daemon's messages. While the vGPU has no place for
  /// this process, Arrive waits: a process without a place would escape the vGPU's cap. Thread-safe, like all functions
  /// below. `now_ns`: CLOCK_MONOTONIC, just read. Every ticket with an attachment must be passed to Leave or Withdraw.
  /// `attach_wait` limits the wait for the daemon's answer. A caller outside a frame of the program may wait longer.
  Ticket Arrive(std::int64_t now_ns, Duration attach_wait = kAttachWait) noexcept;
  /// For a process that may pass no gate for long: attaches if an attempt is due, reads the daemon's messages, and
  /// notices that the daemon has closed the connection. Does not wait for a place.
  void StayAttached(std::int64_t now_ns) noexcept;
  /// The pace in force now.
  [[nodiscard]] static Pace PaceOf(const Ticket& ticket) noexcept;
  /// Sleeps until `until_ns`, or until the requested interval differs from `interval_ns`. Returns the time. The death
  /// of the daemon ends the sleep within kWaitSlice and sets `gone`; the frame must not be paced then.
  std::int64_t Delay(const Ticket& ticket, std::int64_t until_ns, std::int64_t interval_ns, bool& gone) noexcept;
  /// Passes the gate; waits if necessary.
  void Enter(Ticket& ticket, std::int64_t now_ns) noexcept;
  /// Whether the gate is not open now: other vGPUs may then wait for the end of this frame's work.
  [[nodiscard]] static bool MustWait(const Ticket& ticket) noexcept;
  /// Arrive and Enter, for callers without a pace.
  Ticket Enter(std::int64_t now_ns) noexcept;
  /// Charges work in flight for the GPU time that it has used beyond its reservation: the reservation grows, and Leave
  /// settles it. Must not run while another thread uses the same ticket.
  void Charge(Ticket& ticket, std::int64_t used_ns) noexcept;
  /// Settles the reservations of Enter and Charge, and records the frame.
  void Leave(const Ticket& ticket, const Frame& frame) noexcept;

  /// Returns a ticket that was never entered.
  void Withdraw(const Ticket& ticket) noexcept;

  /// False while the agent passes everything.
  [[nodiscard]] bool attached() const noexcept { return attached_.load(std::memory_order_relaxed); }
  /// Whether Enter has an effect: the agent is attached, or an attempt is due. Costs at most a read of the coarse
  /// clock.
  [[nodiscard]] bool Wanted() const noexcept;

  /// CPUs of an embedded device, from the last attach; all zero before it.
  [[nodiscard]] proto::CpuMask device_cpus() const noexcept;
  /// Whether threads must wait at the gate now.
  [[nodiscard]] bool gated() const noexcept;
  /// The present order. While detached, the last one: other vGPUs still need the memory.
  [[nodiscard]] MemoryOrder memory_order() const noexcept;
  /// Waits until the order's number differs from `known`, for at most `timeout`. May return early.
  void AwaitMemoryOrder(std::uint32_t known, Duration timeout) noexcept;
  /// Publishes the statistics, and rings the doorbell if the daemon should poll at once. No-op while detached.
  void ReportMemory(const proto::ExecutorStatistics& statistics, bool ring) noexcept;
  /// Publishes what an executor's clients use of the device: work-items of unfinished launches and bytes of objects.
  /// No-op while detached.
  void ReportUse(std::uint64_t work_items, std::uint64_t memory_bytes, std::uint32_t memory_refused = 0) noexcept;
  /// Takes device memory for an allocation of this process, before the driver is asked for it. False: the vGPU's limit
  /// has no room for it. Attaches if an attempt is due. Two processes whose claims do not fit together wait for each
  /// other, for at most kClaimWait. While the agent is not attached, the last limit holds for this process alone.
  bool ClaimMemory(std::uint64_t bytes) noexcept;
  /// Gives back what ClaimMemory has taken.
  void ReleaseMemory(std::uint64_t bytes) noexcept;
  /// Attaches if an attempt is due.
  MemoryUse UsedMemory() noexcept;
  /// For an executor: the device memory that the vGPU's programs hold themselves, in bytes, as the daemon has last
  /// said. It counts under the limit of the executor's objects. While detached, the last one.
  [[nodiscard]] std::uint64_t programs_memory() const noexcept;
  /// Increases with every attach. After each one, the caller has to report everything again.
  [[nodiscard]] std::uint64_t attach_count() const noexcept { return attach_count_.load(std::memory_order_relaxed); }
  /// Publishes the meter and the renderer, also to every daemon that the agent attaches to later.
  void Describe(proto::MeterKind meter, const char* renderer) noexcept;

  /// Publishes whether the process renders without presenting, also to every daemon that the agent attaches to later.
  void ReportOffScreen(bool off_screen) noexcept;

  /// For the child of a fork, on the inherited object, before it is abandoned. Closes the parent's connection in the
  /// child, so that the daemon notices the parent's end. Touches no shared memory and takes no lock.
  void AbandonInChild() noexcept;

  /// Why the last attempt to attach failed, for diagnosis; empty after a success.
  [[nodiscard]] std::string last_error() const;

 private:
  // ArriveNow, AwaitPlace, MayGetPlace and Wait lock mutex_. The other functions are called with it held.

  /// The daemon's answer to a Hello.
  enum class Answer { kNone, kNoPlace, kOther };

  Ticket ArriveNow(std::int64_t now_ns, Duration attach_wait);
  Ticket AwaitPlace(Duration attach_wait);
  bool MayGetPlace(std::int64_t now_ns);
  Attachment* AttachIfDue(std::int64_t now_ns, Duration wait);
  void GotNoPlace(Error why, std::int64_t now_ns);
  void AttachFailed(Error why, std::int64_t now_ns);
  Status SayHello();
  Result<std::unique_ptr<Attachment>> TryAttach(std::int64_t deadline_ns, Answer& answer);
  Result<std::unique_ptr<Attachment>> ReadAnswer(platform::Fd socket, Answer& answer);
  void PublishDescription();
  void PublishMemory(bool claiming);
  void EndClaim();
  bool IsConnected(Attachment& attachment);
  /// Attaches if an attempt is due. The ticket must be passed to Withdraw.
  Ticket ArriveForMemory() noexcept;
  /// How long a call for memory that is made now waits for the daemon's answer.
  Duration AttachWaitForMemory() noexcept;
  bool Claim(const Attachment& attachment, std::uint64_t bytes);
  bool ClaimWithoutWord(const Attachment& attachment);
  void GiveUpWord(const Attachment& attachment);
  [[nodiscard]] std::uint64_t MemoryLimit() const;
  void Drop(bool count_fail_open);
  void ReadMessages(Attachment& attachment);
  /// False: the daemon is gone. The attachment was dropped then, and the caller continues unthrottled.
  /// `passing`: it is about to pass, so that this counts as a fail-open.
  bool StillThere(Attachment& attachment, std::int64_t now_ns, bool look_at_socket, bool passing = true);
  void Wait(Attachment& attachment, Ticket& ticket, std::int64_t now_ns);
  /// Updates what frames with unknown GPU time are charged, and the prediction. Requires the lock.
  std::int64_t Keep(Attachment& attachment, int unknown, std::int64_t gpu_ns);
  /// Gives up one reference: the agent's own, or that of a ticket.
  void Release(Attachment* attachment);

  const std::string attach_path_;
  const proto::Api api_;
  const std::string program_;

  mutable platform::Mutex mutex_;
  std::atomic<bool> attached_{false};
  std::atomic<bool> full_{false};  // the daemon's last answer was that the vGPU has no place for this process
  std::atomic<std::uint64_t> attach_count_{0};
  std::atomic<std::int64_t> next_attempt_ns_{0};
  std::unique_ptr<Attachment> current_;               // guarded by mutex_
  platform::Fd unanswered_;                           // guarded by mutex_; a connection whose Hello is not answered
  std::int64_t said_hello_ns_ = 0;                    // guarded by mutex_; time of that Hello
  bool late_ = false;                                 // guarded by mutex_; the last Hello had no answer in time
  std::int64_t retry_ns_ = 0;                         // guarded by mutex_; time until the next attempt
  std::int64_t full_at_ns_ = 0;                       // guarded by mutex_; time of the last refusal for lack of a place
  bool full_said_ = false;                            // guarded by mutex_; the user was told of such a refusal
  std::int64_t predicted_ns_ = 0;                     // guarded by mutex_; mean GPU time of the last frames
  std::int64_t late_ns_ = 0;                          // guarded by mutex_; Frame::kEndsNothing since the last frame
  std::string last_error_;                            // guarded by mutex_
  mutable MemoryOrder memory_order_;                  // guarded by mutex_; the last order read
  mutable std::uint64_t programs_memory_ = 0;         // guarded by mutex_; the last one read
  proto::MeterKind meter_ = proto::MeterKind::kNone;  // guarded by mutex_
  bool off_screen_ = false;                           // guarded by mutex_
  char renderer_[sizeof(proto::ProcessRegion::renderer)] = {};  // guarded by mutex_

  platform::Mutex memory_mutex_;              // held while the process claims memory; before mutex_
  std::atomic<std::uint64_t> held_bytes_{0};  // written with memory_mutex_ held
  std::atomic<std::uint32_t> refused_{0};     // allocations; wraps around
  std::atomic<bool> asked_{false};            // an attempt to attach was made for memory
  bool wordless_said_ = false;                // guarded by memory_mutex_; the user was told of no word
  std::atomic<bool> limits_{true};            // the last daemon counts the memory of programs (gate layout 1.10)
};

}  // namespace weir::gate
