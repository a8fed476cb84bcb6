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
inline constexpr int kInFlightMax = 2;
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

  struct Batch {
    gate::Ticket ticket;
    std::int64_t begin_ns = 0, present_ns = 0, submit_ns = 0, pace_ns = 0, interval_ns = 0;
    std::int64_t predicted_ns = 0;  // GPU time of its commands
    int commands = 0;
    std::uint32_t tasks_ended = 0;
    bool task = false;  // one begins with it
    bool alone = false;
    std::vector<CostPart> launches;
  };

  /// Closes the open batch: it is on its way. The caller sees to it that Done is called when the device has done it,
  /// from whichever thread.
  std::unique_ptr<Batch> Close();
  /// Settles it, and learns what its kernels cost. `device_ns`: what the device's own clock says; counts only where no
  /// workers are metered.
  void Done(const Batch& batch, std::int64_t device_ns);

  /// Since when the oldest batch has been on the device; 0: nothing is.
  [[nodiscard]] std::int64_t BusySinceNs() const;
  /// Waits until nothing is in flight.
  void Drain();
  /// Lets whoever waits go: the session ends.
  void Abandon();

 private:
  Tenancy tenancy_;
  std::unique_ptr<Batch> open_;    // the session's thread only
  std::uint32_t tasks_ended_ = 0;  // and of no batch yet

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int in_flight_ = 0;
  bool alone_ = false;  // what is in flight is to be so by itself
  std::int64_t busy_since_ns_ = 0;
  std::int64_t last_end_ns_ = 0;
  core::FramePacer pacer_;
  bool abandoned_ = false;
};

}  // namespace weir::opencl
