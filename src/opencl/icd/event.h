// SPDX-License-Identifier: Apache-2.0
// The event of a command, or a user event.
//
//   CL_SUBMITTED --(EventDone, or the client executed the command itself)--> CL_COMPLETE or an error
//
// The client learns how an event ended by watching it. An event without an id belongs to a command that the client
// executed itself; the executor does not know of it.
#pragma once

#include <memory>
#include <vector>

#include "opencl/icd/context.h"
#include "opencl/icd/link.h"
#include "opencl/icd/queue.h"

namespace weir::opencl::icd {

/// Data that lies in the arena when a command has ended, and its destination in the program's memory.
struct Arrival {
  std::uint64_t from = 0;          // in the arena, tightly packed
  std::byte* to = nullptr;         // the first byte of the box
  std::size_t box[3] = {0, 1, 1};  // bytes of a row, rows, slices
  std::size_t row_pitch = 0, slice_pitch = 0;
  Range free_after{};    // 0 bytes: the range is not freed
  bool of_more = false;  // this is one of many copies in a row, which bypass the caches
};

/// An arrival without data, so that a command is watched and has an event to wait for.
inline std::unique_ptr<Arrival> NoData() { return std::make_unique<Arrival>(Arrival{.box = {0, 0, 0}}); }

struct EventCallback {
  void(CL_CALLBACK* call)(cl_event, cl_int, void*) = nullptr;
  void* user = nullptr;
  cl_int at = CL_COMPLETE;  // the status at which it is called
};

struct Event : Object {
  static constexpr Kind kKind = Kind::kEvent;
  Event(Context& of, Queue* in, cl_command_type what);
  static void End(Event* event);

  [[nodiscard]] cl_int Status() const { return status.load(std::memory_order_acquire); }
  [[nodiscard]] bool done() const { return Status() <= CL_COMPLETE; }

  Ref<Context> context;
  Ref<Queue> queue;  // null: a user event
  cl_command_type type;
  std::atomic<cl_int> status{CL_SUBMITTED};
  std::atomic<bool> watched{false};
  std::uint64_t sequence = 0;  // position among the commands of its queue; 0: not sent
  std::uint64_t queued_ns = 0, submit_ns = 0, start_ns = 0, end_ns = 0;
  std::unique_ptr<Arrival> arrival;      // guarded by the state lock
  std::vector<EventCallback> callbacks;  // guarded by the state lock
};

/// Copies the arrived data and frees its range. Must be called without a lock.
void Deliver(Link& link, const Arrival& arrival);
/// Records the end of an event: posts its callbacks and wakes waiters. Requires the state lock.
void Settle(Event& event, cl_int status);
/// Whether the command has ended. Asks the executor if the client does not know; does not wait for the command.
bool HasEnded(const Event& event);
/// Creates the event of a command that the client executed itself, from `begun_ns` until now.
Event* LocalEvent(Queue& queue, cl_command_type type, std::uint64_t begun_ns);

/// The wait list of a command.
class WaitList {
 public:
  /// `of`: the context to which the events must belong.
  cl_int Read(const Context& of, cl_uint count, const cl_event* list);
  /// The events that the executor must wait for, because they are not known to be complete.
  [[nodiscard]] wire::IdList ids() const { return {more_.empty() ? few_ : more_.data(), count_}; }
  /// Whether all events are known to have succeeded.
  [[nodiscard]] bool complete() const { return count_ == 0 && !failed_; }
  /// Whether an event is known to have failed.
  [[nodiscard]] bool failed() const { return failed_; }
  /// Whether all events are known to have ended.
  [[nodiscard]] bool ended() const;
  /// Waits for all events. Watches them first unless Watch was called.
  cl_int Wait() const;
  void Watch() const;

 private:
  static constexpr std::size_t kFew = 16;
  std::span<const cl_event> events_;
  std::uint32_t few_[kFew];
  std::vector<std::uint32_t> more_;
  std::size_t count_ = 0;
  bool failed_ = false;
};

}  // namespace weir::opencl::icd
