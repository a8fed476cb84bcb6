// SPDX-License-Identifier: Apache-2.0
// A session's passage through the gate. Tasks are admitted in batches, so that short kernels do not pay the cost of the
// gate one by one. A batch is reserved when it begins, and settled when the device has completed it.
//
//   closed ──Begin: wait for a batch in flight to end, for the pace, at the gate──▶ open ──Close──▶ in flight ──done──▶
//   settled
//
// At most kInFlightMax batches are on the device. This bounds the work submitted ahead of the gate: kQuantum for each
// batch, or one task.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/units.h"
#include "core/schedule/frame_pacer.h"
#include "gate/agent.h"
#include "opencl/executor/device_meter.h"
#include "opencl/executor/kernel_cost.h"

namespace weir::opencl {

inline constexpr Duration kQuantum = milliseconds(2);
inline constexpr std::size_t kInFlightMax = 2;
inline constexpr int kCommandsPerBatchMax = 512;

/// What all sessions of an executor share for admission.
struct Tenancy {
  gate::Agent& agent;
  DeviceMeter& meter;
  std::shared_ptr<std::atomic<std::uint64_t>> work_items;  // of launches in unfinished batches
};

class Admission {
 public:
  explicit Admission(const Tenancy& tenancy) : tenancy_(tenancy) {}

  struct Entry {
    bool task = false;            // the batch begins a task, which also waits for the pace
    bool alone = false;           // no other batch is in flight meanwhile, so that its GPU time can be measured
    bool in_turn = true;          // false if a batch in flight may wait for the client: waiting for it could deadlock
    const void* queue = nullptr;  // that its commands are in
  };

  /// Begins a batch; `predicted_ns` is the predicted GPU time of its first command. Waits as long as the gate requires.
  void Begin(std::int64_t predicted_ns, const Entry& entry);
  /// Counts a command towards the open batch.
  void Add(std::int64_t predicted_ns);
  /// Counts a kernel launch of `items` work-items towards the open batch.
  void AddLaunch(const std::shared_ptr<KernelCost>& cost, std::uint64_t items, std::int64_t predicted_ns);
  /// A task has ended with the last submitted command. It counts towards the open batch, or else the next one.
  void EndTask() { tasks_ended_ = std::min(tasks_ended_ + 1, proto::kRecordTasksMax); }
  /// Whether the open batch is full. A paced batch is full with its first task.
  [[nodiscard]] bool Full() const;
  /// Whether the open batch began without a pace, although tasks now have to keep one.
  [[nodiscard]] bool Unpaced() const {
    return open_->interval_ns == 0 && gate::Agent::PaceOf(open_->ticket).interval_ns != 0;
  }
  [[nodiscard]] bool open() const { return open_ != nullptr; }
  /// Whether the open batch may wait for an event that only the client sets.
  [[nodiscard]] bool MayWaitForClient() const { return open_->may_wait_for_client; }

  struct Batch {
    gate::Ticket ticket;
    std::int64_t begin_ns = 0, present_ns = 0, submit_ns = 0, pace_ns = 0, interval_ns = 0;
    std::int64_t predicted_ns = 0;  // GPU time of its commands
    int commands = 0;
    std::uint32_t tasks_ended = 0;
    bool task = false;  // a task begins with it
    bool alone = false;
    bool may_wait_for_client = false;  // its command may wait for an event that only the client sets
    const void* queue = nullptr;
    std::vector<CostPart> launches;

    // Guarded by the admission's mutex from Begin to Done, as is the ticket:
    std::int64_t since_ns = 0;          // when it was submitted, or when the batch before it in its queue has ended
    std::function<bool()> running;      // whether the device is executing it; set if it may wait for the client
    std::int64_t running_since_ns = 0;  // when it was first seen running
    bool ended = false;
    std::int64_t used_ns = 0;  // GPU time charged so far
  };

  /// Closes the open batch, which is then in flight. The caller must call Done, from any thread, when the device has
  /// completed it. `running` reports whether the device is executing it; another thread calls it.
  std::unique_ptr<Batch> Close(std::function<bool()> running = {});
  /// Settles the batch and updates the costs of its kernels. `device_ns`: time by the device's own clock, used only if
  /// no workers are metered. Absent: a command has failed, and the time since the batch could begin is charged.
  void Done(Batch& batch, std::optional<std::int64_t> device_ns);

  /// Called by another thread at every poll. Charges batches in flight for the GPU time used so far, so that a long
  /// kernel, or a process that dies, pays for it. Without metered workers that is the time since a batch has ended, or,
  /// for a batch that is in flight for long, since it could begin: batches of other queues may end beside it. Done
  /// settles the difference.
  void ChargeInFlight(std::int64_t now_ns);
  /// The time since which the device has been executing the oldest batch; 0: it is idle. For a batch that may wait for
  /// the client, the time when ChargeInFlight first saw it running.
  [[nodiscard]] std::int64_t BusySinceNs() const;
  /// As BusySinceNs, whatever has ended in other queues meanwhile: the time since which the oldest batch could run.
  [[nodiscard]] std::int64_t OldestSinceNs() const;
  /// Waits until nothing is in flight.
  void Drain();
  /// Releases all waiters, because the session ends.
  void Abandon();

 private:
  /// The oldest batch that the device is executing; null: there is none. Requires the mutex.
  [[nodiscard]] Batch* AtWork() const;

  Tenancy tenancy_;
  std::unique_ptr<Batch> open_;    // used only by the session's thread
  std::uint32_t tasks_ended_ = 0;  // not yet counted towards a batch

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Batch*> flying_;  // oldest first; the owner of a batch calls Done before it destroys the batch
  bool alone_ = false;          // the batch in flight must be the only one
  std::int64_t busy_since_ns_ = 0;
  std::int64_t last_end_ns_ = 0;
  core::FramePacer pacer_;
  bool abandoned_ = false;
};

}  // namespace weir::opencl
