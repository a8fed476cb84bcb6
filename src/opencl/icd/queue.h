// SPDX-License-Identifier: Apache-2.0
// A command queue. It counts its commands, and is idle when the last one is known to have ended. On a device that
// shares the arena, the client then reads, writes and maps buffers itself.
#pragma once

#include <deque>
#include <vector>

#include "opencl/icd/context.h"
#include "opencl/icd/device.h"
#include "opencl/icd/link.h"

namespace weir::opencl::icd {

/// Content of a blocking write that is staged in the arena.
struct Staged {
  std::uint64_t ticket = 0, bytes = 0;
};

struct Queue : Object {
  static constexpr Kind kKind = Kind::kQueue;
  Queue(Context& of, Device& on) : Object(kKind, of.link), context(&of), device(&on) {}
  static void End(Queue* queue);
  /// Counts the queue among its context's. Waits for the writes of other queues that ran ahead, because this queue may
  /// read what they wrote.
  void Join();
  /// The opposite, when the program releases the queue. Waits for its own writes that ran ahead.
  void Leave();

  [[nodiscard]] bool in_order() const { return (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0; }
  [[nodiscard]] bool profiling() const { return (properties & CL_QUEUE_PROFILING_ENABLE) != 0; }
  [[nodiscard]] bool idle() const {
    return ended.load(std::memory_order_acquire) >= issued.load(std::memory_order_acquire);
  }
  /// Waits until all issued commands have ended; costs nothing if that is known. Returns the queue's first error, if
  /// any.
  cl_int WaitUntilIdle();
  /// Records that a blocking write has staged `bytes` in the arena, which are freed with this ticket.
  void Stage(std::uint64_t ticket, std::uint64_t bytes);
  /// Waits until `bytes` more and the staged bytes are at most `most`, nothing is staged, or the connection is lost.
  /// Only for in-order queues: in others, staged content may wait for a command after this call.
  void AwaitRoomToStage(std::uint64_t bytes, std::uint64_t most);
  /// Whether a blocking write may run ahead, which means that it returns before it has ended: no other queue can read
  /// the old contents, and this queue executes its commands in order.
  [[nodiscard]] bool may_run_ahead() const { return in_order() && context->queue_count.load() == 1; }
  /// The command `sequence` is a blocking write that runs ahead.
  void RanAhead(std::uint64_t sequence);
  /// Sends a marker behind all commands issued so far. Returns its event, which is held, or null if it can't be sent.
  Event* Mark();
  /// Makes it possible to wait for the writes that ran ahead, and not for later commands, which may wait for a user
  /// event.
  void MarkWrites();
  /// Waits until the writes that ran ahead have ended.
  void AwaitWrites();
  /// Whether the buffers of this queue are arena ranges, so that the queue alone orders accesses to them.
  [[nodiscard]] bool works_in_arena() const { return context->shares_arena; }

  Ref<Context> context;
  Ref<Device> device;
  cl_command_queue_properties properties = 0;
  std::vector<cl_queue_properties> given;  // as given to clCreateCommandQueueWithProperties, including the final 0
  std::atomic<std::uint64_t> issued{0};    // number of commands; guarded by the send lock
  std::atomic<std::uint64_t> ended{0};     // all commands up to this one; guarded by the state lock
  std::atomic<std::uint64_t> flushed{0};
  std::deque<Event*> arrivals;  // undelivered reads, in order; guarded by the state lock; events are held
  // Content of blocking writes that was not freed at the last check, in order; guarded by the state lock
  std::deque<Staged> staged;
  std::uint64_t staged_bytes = 0;         // of `staged`; guarded by the state lock
  std::atomic<std::uint64_t> ahead{0};    // the last write that ran ahead
  std::atomic<std::uint64_t> barrier{0};  // commands up to this one lie before the last barrier, or are it
  Event* behind_writes = nullptr;         // of a marker behind such writes, if any; guarded by the state lock; held
};

/// All commands up to `sequence` have ended: delivers their data. Takes the state lock.
void EndUpTo(Queue& queue, std::uint64_t sequence);

}  // namespace weir::opencl::icd
