// SPDX-License-Identifier: Apache-2.0
// A session's way through the gate. Tasks are let through in batches, so that a stream of short kernels passes at the
// cost of the long ones: a batch is reserved for when it begins, and settled when the device has done it.
//
//   closed ──Begin: wait for one in flight to end, for the pace, at the gate──▶ open ──Close──▶ in flight ──done──▶
//   settled
//
// At most kInFlightMax batches are on the device, so that what is submitted ahead of the gate is bounded: kQuantum
// each, or one task.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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

/// What all sessions of an executor share: its agent and its meter.
struct Tenancy {
  gate::Agent& agent;
  DeviceMeter& meter;
  std::shared_ptr<std::atomic<std::uint64_t>> work_items;  // of launches in batches that have not ended
};

class Admission {
 public:
  explicit Admission(const Tenancy& tenancy) : tenancy_(tenancy) {}

  struct Entry {
    bool task = false;   // a task begins with it, which waits for the pace, too
    bool alone = false;  // nothing else is in flight while it is, so that what it takes is known
    bool in_turn =
        true;  // false when what is in flight may be waiting for the client: waiting for that would be for ever
  };

  /// Begins a batch, with what its first command is foreseen to take. Waits for as long as the gate says.
  void Begin(std::int64_t predicted_ns, const Entry& entry);
  /// Counts a command to the open batch.
  void Add(std::int64_t predicted_ns);
  /// Says that it launches a kernel with this many work-items.
  void AddLaunch(const std::shared_ptr<KernelCost>& cost, std::uint64_t items, std::int64_t predicted_ns);
  /// A task has ended with what was submitted last. It is counted to the open batch, else to the next.
  void EndTask() { tasks_ended_ = std::min(tasks_ended_ + 1, proto::kRecordTasksMax); }
  /// Whether the open batch has had enough. A paced one has with its first task.
  [[nodiscard]] bool Full() const;
  /// Whether it was begun without waiting for the pace that a task has to keep now.
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
    bool task = false;  // one begins with it
    bool alone = false;
    bool may_wait_for_client = false;  // its command may wait for an event that only the client sets
    std::vector<CostPart> launches;

    // Guarded by the admission's mutex from Begin to Done, as the ticket is:
    std::function<bool()> running;      // whether the device is at work on it; set where it may wait for the client
    std::int64_t running_since_ns = 0;  // when that was first seen
    bool ended = false;
    std::int64_t used_ns = 0;  // GPU time that it was found to have used so far
  };

  /// Closes the open batch: it is on its way. The caller sees to it that Done is called when the device has done it,
  /// from whichever thread. `running` tells whether the device is at work on it; it is asked from another thread.
  std::unique_ptr<Batch> Close(std::function<bool()> running = {});
  /// Settles it, and learns what its kernels cost. `device_ns`: what the device's own clock says; counts only where no
  /// workers are metered.
  void Done(Batch& batch, std::int64_t device_ns);

  /// From another thread, at every poll: charges what is in flight for what it has used so far, so that a long kernel
  /// is paid for while it runs, and by a process that dies. Without metered workers that is the time since it began;
  /// Done settles the difference.
  void ChargeInFlight(std::int64_t now_ns);
  /// Since when the device has been at work on the oldest batch; 0: it isn't. A batch that may wait for the client
  /// counts from when ChargeInFlight first saw it running.
  [[nodiscard]] std::int64_t BusySinceNs() const;
  /// Waits until nothing is in flight.
  void Drain();
  /// Lets whoever waits go: the session ends.
  void Abandon();

 private:
  /// The oldest batch that the device is at work on; null: there is none. With the mutex held.
  [[nodiscard]] Batch* AtWork() const;

  Tenancy tenancy_;
  std::unique_ptr<Batch> open_;    // the session's thread only
  std::uint32_t tasks_ended_ = 0;  // and of no batch yet

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Batch*> flying_;  // oldest first; whoever holds one calls Done before it goes
  bool alone_ = false;          // what is in flight is to be so by itself
  std::int64_t busy_since_ns_ = 0;
  std::int64_t last_end_ns_ = 0;
  core::FramePacer pacer_;
  bool abandoned_ = false;
};

}  // namespace weir::opencl
