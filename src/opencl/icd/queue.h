// SPDX-License-Identifier: Apache-2.0
// A command queue. It counts its commands: when the last one issued is known to have ended, it is idle, and on a device
// that shares the arena the client then reads, writes and maps by itself.
#pragma once

#include <deque>
#include <vector>

#include "opencl/icd/context.h"
#include "opencl/icd/device.h"
#include "opencl/icd/link.h"

namespace weir::opencl::icd {

/// A range of the arena with what is to be written.
struct Staged {
  std::uint64_t ticket = 0, bytes = 0;
};

struct Queue : Object {
  static constexpr Kind kKind = Kind::kQueue;
  Queue(Context& of, Device& on) : Object(kKind, of.link), context(&of), device(&on) {}
  static void End(Queue* queue);

  [[nodiscard]] bool in_order() const { return (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0; }
  [[nodiscard]] bool profiling() const { return (properties & CL_QUEUE_PROFILING_ENABLE) != 0; }
  [[nodiscard]] bool idle() const {
    return ended.load(std::memory_order_acquire) >= issued.load(std::memory_order_acquire);
  }
  /// Waits until all that was issued has ended; asks nobody where that is known. The queue's first error, if any.
  cl_int WaitUntilIdle();
  /// A blocking write has staged `bytes` in the arena, which are free when this ticket is.
  void Stage(std::uint64_t ticket, std::uint64_t bytes);
  /// Until `bytes` more make no more than `most` with what was staged, or nothing is, or the connection is gone. Only
  /// of a queue in order: in others what was staged may wait for what comes after the call that waits here.
  void AwaitRoomToStage(std::uint64_t bytes, std::uint64_t most);
  /// The buffers of this queue are their ranges, and what is done there is ordered by the queue.
  [[nodiscard]] bool works_in_arena() const { return context->shares_arena; }

  Ref<Context> context;
  Ref<Device> device;
  cl_command_queue_properties properties = 0;
  std::vector<cl_queue_properties> given;  // as clCreateCommandQueueWithProperties got them, with the closing 0
  std::atomic<std::uint64_t> issued{0};    // commands; send lock
  std::atomic<std::uint64_t> ended{0};     // all up to this one; state lock
  std::atomic<std::uint64_t> flushed{0};
  std::deque<Event*> arrivals;  // of reads that have not been delivered, in order; state lock; held
  std::deque<Staged> staged;    // by blocking writes: what had not been freed when it was looked, in order; state lock
  std::uint64_t staged_bytes = 0;  // of these; state lock
};

/// All commands up to `sequence` have ended: delivers what they read. Takes the state lock.
void EndUpTo(Queue& queue, std::uint64_t sequence);

}  // namespace weir::opencl::icd
