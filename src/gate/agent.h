// SPDX-License-Identifier: Apache-2.0
// An agent's end of the gate: inside a tenant's program (a shim) or an executor. Attaches without a thread of its own,
// reserves on entry, settles after, and fails open when the daemon is gone.
//
//              Welcome                     heartbeat stale, or the socket closed
//   detached ───────────▶ attached ────────────────────────────────────────────▶ detached
//      ▲  └── refused, nobody there: try again later, pass everything meanwhile ──┘
//
// Bounds: an attempt to attach blocks for at most kAttachWait, if nothing else is asked for; a wait at the gate or a
// delay ends at most kWaitSlice after the daemon's death, kHeartbeatStaleNs after it hangs.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/units.h"
#include "proto/attach_messages.h"
#include "proto/gate_layout.h"

namespace weir::gate {

inline constexpr Duration kAttachWait = milliseconds(100);
inline constexpr Duration kWaitSlice = milliseconds(50);
inline constexpr Duration kAttachRetry = milliseconds(100);
inline constexpr Duration kAttachRetryMax = seconds(5);

/// A pace slower than this is taken for this.
inline constexpr Duration kPaceIntervalMax = seconds(10);

struct Attachment;

/// A frame's way through the gate, from Arrive to Leave. Plain data; a default one means "passed without a gate".
struct Ticket {
  Attachment* attachment = nullptr;
  bool entered = false;
  std::int64_t reserved_ns = 0;
  std::int64_t wait_ns = 0;
};

/// What the daemon wants of a frame's pace. No interval: no pace, and no need to synchronise.
struct Pace {
  std::int64_t interval_ns = 0;
  proto::FrameSync sync = proto::FrameSync::kAuto;
};

/// Times of one frame (CLOCK_MONOTONIC) and what it cost.
struct Frame {
  std::uint32_t surface = 0;
  std::int64_t begin_ns = 0;    // return of the previous present
  std::int64_t present_ns = 0;  // call of present, before the gate
  std::int64_t submit_ns = 0;   // call of the driver's present, behind the gate; 0: at once after the wait
  std::int64_t end_ns = 0;      // return of present
  std::int64_t gpu_ns = 0;      // in the device's unit
  std::int64_t sync_ns = 0;
  std::int64_t pace_ns = 0;
  std::int64_t predicted_ns = 0;  // of end - submit; 0: nothing was predicted
  std::int64_t interval_ns = 0;   // pace in force; 0: none
  std::uint32_t tasks = 0;        // proto::Record::tasks
};

/// What the daemon grants of the device's memory, in slots of 64 MiB.
struct MemoryOrder {
  std::uint32_t number = 0;  // to be answered with MemoryReport::done
  bool elastic = false;      // false: only `limit` says anything
  std::uint32_t limit = 0;   // what it holds; not elastic: of what it makes, 0 for no limit
  std::uint32_t here = 0;    // of these, its own now: contents beyond it are to be evicted
  std::uint32_t max = 0;     // never more than this: what one command uses; 0: no limit
  friend bool operator==(const MemoryOrder&, const MemoryOrder&) = default;
};

/// An executor's books of elastic memory: proto::MemoryWords, one by one, and what parts cost before they ran.
struct MemoryReport {
  std::uint32_t done = 0, resident_slots = 0;
  std::uint64_t need_bytes = 0, must_bytes = 0, in_use_bytes = 0, made_bytes = 0;
  std::int64_t switch_copy_ns = 0;
  std::uint64_t copied_out = 0, copied_in = 0, evictions = 0;
  std::int64_t steal_ns = 0, elsewhere_ns = 0;
  std::uint32_t threads = 0;
  std::uint32_t launches_not_cut = 0;
  std::uint64_t launches_in_parts = 0, parts = 0, parts_in = 0, parts_out = 0;
  std::uint32_t parts_decide_us = 0, parts_compile_us = 0;
  std::uint64_t resident_bytes = 0;
};

class Agent {
 public:
  /// `attach_path`: the vGPU's attach socket; empty: never attaches. `program` is for people.
  Agent(std::string attach_path, proto::Api api, std::string program);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// A frame comes to the gate: attaches if it is time to, reads what the daemon sent. Thread-safe, like all that
  /// follows. `now_ns`: CLOCK_MONOTONIC, just read. Every ticket with an attachment must come to Leave. `attach_wait`:
  /// for the daemon's answer where it attaches; who is in no frame of a program's may wait longer.
  Ticket Arrive(std::int64_t now_ns, Duration attach_wait = kAttachWait) noexcept;
  /// The pace as it is now.
  [[nodiscard]] static Pace PaceOf(const Ticket& ticket) noexcept;
  /// Sleeps until `until_ns`, or until the interval is no longer `interval_ns`. Returns the time; the daemon's death
  /// ends it within kWaitSlice, and then `gone` is set: nothing is to be paced.
  std::int64_t Delay(const Ticket& ticket, std::int64_t until_ns, std::int64_t interval_ns, bool& gone) noexcept;
  /// Passes the gate, waiting if it must.
  void Enter(Ticket& ticket, std::int64_t now_ns) noexcept;
  /// Arrive and Enter, for who paces nothing.
  Ticket Enter(std::int64_t now_ns) noexcept;
  /// Charges work in flight for the GPU time it has used so far, beyond what is reserved for it already: the reservation
  /// grows, and Leave settles it. Not for a ticket that another thread uses at the same time.
  void Charge(Ticket& ticket, std::int64_t used_ns) noexcept;
  /// Settles what Enter reserved and Charge added, and records the frame.
  void Leave(const Ticket& ticket, const Frame& frame) noexcept;

  /// Gives a ticket back that was never entered: nothing came of it.
  void Withdraw(const Ticket& ticket) noexcept;

  /// False while passing everything through.
  [[nodiscard]] bool attached() const noexcept { return attached_.load(std::memory_order_relaxed); }
  /// Whether there is any point in calling Enter: attached, or it is time to try again. Costs a coarse clock at most.
  [[nodiscard]] bool Wanted() const noexcept;

  /// CPUs of a software device, as the daemon said at the last attach; all zero before it.
  [[nodiscard]] proto::CpuMask device_cpus() const noexcept;
  /// Whether anybody is to wait at the gate now.
  [[nodiscard]] bool gated() const noexcept;
  /// As it is now; while nobody is there, as it was last: memory is no less others' for that.
  [[nodiscard]] MemoryOrder memory_order() const noexcept;
  /// Until the order has another number than `known`; at most `timeout`, and at times sooner.
  void AwaitMemoryOrder(std::uint32_t known, Duration timeout) noexcept;
  /// Publishes the books, and rings if somebody is to look at once. No-op while detached.
  void ReportMemory(const MemoryReport& report, bool ring) noexcept;
  /// Publishes what an executor's clients use of the device: work-items of launches that have not ended, bytes of
  /// objects. No-op while detached.
  void ReportUse(std::uint64_t work_items, std::uint64_t memory_bytes) noexcept;
  /// Counts up at every attach: what was told to the former daemon has to be told again.
  [[nodiscard]] std::uint64_t attach_count() const noexcept { return attach_count_.load(std::memory_order_relaxed); }
  /// Publishes where GPU time comes from. No-op while detached.
  void Describe(proto::MeterKind meter, const char* renderer) noexcept;

  /// For the child of a fork, on the inherited object and before it is forgotten: closes the parent's connection there,
  /// so that the daemon sees the parent's end when it comes. Touches nothing shared, takes no lock.
  void AbandonInChild() noexcept;

  /// Why the last attempt to attach failed, for diagnosis; empty after a good one.
  [[nodiscard]] std::string last_error() const;

 private:
  Attachment* AttachIfDue(std::int64_t now_ns, Duration wait);
  Result<std::unique_ptr<Attachment>> TryAttach(std::int64_t deadline_ns);
  void Drop(bool count_fail_open);
  void ReadMessages(Attachment& attachment);
  bool StillThere(Attachment& attachment, std::int64_t now_ns, bool look_at_socket);
  void Wait(Attachment& attachment, Ticket& ticket, std::int64_t now_ns);
  void Release(Attachment* attachment);

  const std::string attach_path_;
  const proto::Api api_;
  const std::string program_;

  mutable pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> attached_{false};
  std::atomic<std::uint64_t> attach_count_{0};
  std::atomic<std::int64_t> next_attempt_ns_{0};
  std::unique_ptr<Attachment> current_;  // guarded by mutex_
  std::int64_t retry_ns_ = 0;            // guarded by mutex_
  std::int64_t predicted_ns_ = 0;        // guarded by mutex_
  std::string last_error_;               // guarded by mutex_
  mutable MemoryOrder memory_order_;     // guarded by mutex_; the last that was seen
};

}  // namespace weir::gate
