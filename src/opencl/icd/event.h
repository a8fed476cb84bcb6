// SPDX-License-Identifier: Apache-2.0
// A command's event, or the program's own.
//
//   CL_SUBMITTED --(EventDone, or the client did it itself)--> CL_COMPLETE or an error
//
// How it ended is learned by watching it. An event without an id is one of a command that the client carried out
// alone; the executor never hears of it.
#pragma once

#include <memory>
#include <vector>

#include "opencl/icd/context.h"
#include "opencl/icd/link.h"
#include "opencl/icd/queue.h"

namespace weir::opencl::icd {

/// Bytes that lie in the arena when a command is done, and that the program wants elsewhere.
struct Arrival {
  std::uint64_t from = 0;          // in the arena, tightly packed
  std::byte* to = nullptr;         // the first byte of the box
  std::size_t box[3] = {0, 1, 1};  // bytes of a row, rows, slices
  std::size_t row_pitch = 0, slice_pitch = 0;
  Range free_after{};    // bytes 0: stays
  bool of_more = false;  // one of many parts in a row: goes past the caches
};

struct EventCallback {
  void(CL_CALLBACK* call)(cl_event, cl_int, void*) = nullptr;
  void* user = nullptr;
  cl_int at = CL_COMPLETE;
};

struct Event : Object {
  static constexpr Kind kKind = Kind::kEvent;
  Event(Context& of, Queue* in, cl_command_type what);
  static void End(Event* event);

  [[nodiscard]] cl_int Status() const { return status.load(std::memory_order_acquire); }
  [[nodiscard]] bool done() const { return Status() <= CL_COMPLETE; }

  Ref<Context> context;
  Ref<Queue> queue;  // none: a user event
  cl_command_type type;
  std::atomic<cl_int> status{CL_SUBMITTED};
  std::atomic<bool> watched{false};
  std::uint64_t sequence = 0;  // its place among the commands of its queue; 0: not sent
  std::uint64_t queued_ns = 0, submit_ns = 0, start_ns = 0, end_ns = 0;
  std::unique_ptr<Arrival> arrival;      // state lock
  std::vector<EventCallback> callbacks;  // state lock
};

/// Copies what arrived, and frees its range. No lock held.
void Deliver(Link& link, const Arrival& arrival);
/// The event has ended: callbacks are posted, waiters woken. Under the state lock.
void Settle(Event& event, cl_int status);
/// Makes an event of a command that the client carried out alone, from `begun_ns` until now.
Event* LocalEvent(Queue& queue, cl_command_type type, std::uint64_t begun_ns);

/// The events that a command is to wait for.
class WaitList {
 public:
  /// `of`: whose events they must be.
  cl_int Read(const Context& of, cl_uint count, const cl_event* list);
  /// Those that the executor has to hear of: not known to be complete.
  [[nodiscard]] wire::IdList ids() const { return {more_.empty() ? few_ : more_.data(), count_}; }
  /// All are known to have ended well.
  [[nodiscard]] bool complete() const { return count_ == 0 && !failed_; }
  /// One is known to have failed.
  [[nodiscard]] bool failed() const { return failed_; }
  /// Waits for all of them. Watches them first, unless Watch did.
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
