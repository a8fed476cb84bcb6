// SPDX-License-Identifier: Apache-2.0
// Shared by all clEnqueue… functions: reads the queue and the wait list, sends the command, and creates its event.
#pragma once

#include <memory>
#include <utility>

#include "opencl/icd/event.h"
#include "opencl/icd/queue.h"
#include "platform/clock.h"

namespace weir::opencl::icd {

class Command {
 public:
  /// CL_SUCCESS, or the error of these arguments.
  cl_int Open(cl_command_queue queue, cl_uint wait_count, const cl_event* wait_list, cl_event* event);

  [[nodiscard]] Queue& queue() const { return *queue_; }
  [[nodiscard]] Link& link() const { return *queue_->link; }
  [[nodiscard]] const WaitList& waits() const { return waits_; }
  [[nodiscard]] bool wants_event() const { return event_ != nullptr; }
  /// A blocking write fails immediately if an event of its wait list has failed.
  [[nodiscard]] bool FailsAtOnce(cl_bool blocking) const { return blocking != CL_FALSE && waits_.failed(); }
  /// Whether there is nothing that the command must wait for, although its queue has commands that have not ended. What
  /// lies before a barrier must have ended.
  [[nodiscard]] bool waits_for_nothing() const {
    return !queue_->in_order() && waits_.complete() && queue_->ended.load() >= queue_->barrier.load();
  }
  /// Whether a long read or write may be sent in parts. In an in-order queue it ends with its last part, whose event
  /// stands for the whole. A program that profiles needs the times of the whole command.
  [[nodiscard]] bool may_be_in_parts() const {
    return !queue_->works_in_arena() && queue_->in_order() && !(queue_->profiling() && wants_event());
  }

  /// Whether the client may execute the command itself now: buffers are arena ranges, the queue is idle, and there is
  /// nothing to wait for.
  [[nodiscard]] bool may_complete_locally() const {
    return queue_->works_in_arena() && queue_->idle() && waits_.complete();
  }
  /// Whether the client may execute the command itself after waiting. In an out-of-order queue that is not idle it may
  /// not, because an earlier command may wait for a later one.
  [[nodiscard]] bool may_be_done_here_after_waiting() const {
    return queue_->works_in_arena() && (queue_->in_order() || queue_->idle());
  }
  /// Waits until the client may execute the command. Costs one round trip.
  [[nodiscard]] cl_int WaitUntilItMay() const;
  /// The same for a call that must not wait for a later call of the program: while user events are unset it waits until
  /// `until_ns` at most, and then returns CL_OUT_OF_RESOURCES.
  [[nodiscard]] cl_int WaitUntilItMay(std::int64_t until_ns) const;
  /// Records that the client has executed the command.
  cl_int CompleteLocally(cl_command_type type);

  /// Sends `command`. With `arrival` its event is watched, and its data is delivered before the program can see that
  /// the command is complete.
  template <typename M>
  cl_int Send(M& command, cl_command_type type, std::unique_ptr<Arrival> arrival = nullptr) {
    Event* event = event_ != nullptr || arrival != nullptr ? NewEvent(type) : nullptr;
    return SendWith(command, event, std::move(arrival), /*whole=*/true);
  }
  /// For a blocking write: the arrival to send it with. Not null: it must not run ahead, and is waited for.
  [[nodiscard]] std::unique_ptr<Arrival> ArrivalOfWrite(cl_bool blocking) const {
    return blocking != CL_FALSE && !queue_->may_run_ahead() ? NoData() : nullptr;
  }
  /// Ends a write that has been sent. A blocking one waits for its end, or runs ahead: the program may reuse its
  /// memory, and neither has an event nor another queue, by which it could see that the write has not ended.
  cl_int EndWrite(cl_bool blocking);
  /// Sends a part of a command that Send completes. The program gets no event of a part; only a part with an arrival
  /// has an internal one.
  template <typename M>
  cl_int SendPart(M& command, cl_command_type type, std::unique_ptr<Arrival> arrival = nullptr) {
    Event* event = arrival != nullptr ? NewEvent(type) : nullptr;
    return SendWith(command, event, std::move(arrival), /*whole=*/false);
  }
  /// Waits for the command sent by Send if it has an event. Returns CL_SUCCESS or the command's error.
  cl_int WaitForIt() { return made_ ? WaitFor(*made_) : CL_SUCCESS; }
  /// The event of the last command or part, to wait for one of several.
  [[nodiscard]] Ref<Event> made() const { return made_; }
  cl_int WaitFor(Event& event);

 private:
  template <typename M>
  cl_int SendWith(M& command, Event* event, std::unique_ptr<Arrival> arrival, bool whole) {
    {
      Link::Sending sending(link());
      if (!sending.usable()) return NotSent(event, kGone);
      if (event != nullptr) event->id = sending.NewId();
      command.enqueue = {.queue = queue_->id, .event = event != nullptr ? event->id : 0, .waits = waits_.ids()};
      if (!sending.Send(command)) {
        if (event != nullptr) sending.FreeId(std::exchange(event->id, 0));
        return NotSent(event, link().usable() ? CL_OUT_OF_RESOURCES : kGone);
      }
      const std::uint64_t sequence = queue_->issued.load(std::memory_order_relaxed) + 1;
      queue_->issued.store(sequence, std::memory_order_release);
      sequence_ = sequence;
      if (event != nullptr) event->sequence = sequence;
      if (arrival != nullptr) Expect(*event, std::move(arrival), sending);
    }
    if (event != nullptr) Hand(event, whole);
    return CL_SUCCESS;
  }
  /// Creates the event of a command that is about to be sent.
  Event* NewEvent(cl_command_type type);
  /// Watches the event, so that `arrival` is delivered when the command has ended.
  void Expect(Event& event, std::unique_ptr<Arrival> arrival, Link::Sending& sending);
  /// Gives the event of a whole command to the program. If the program wants none, or the command is a part, the event
  /// lives until its command has ended.
  void Hand(Event* event, bool whole);
  /// Destroys the event of a command that was not sent. Returns `error`.
  static cl_int NotSent(Event* event, cl_int error);

  Queue* queue_ = nullptr;
  WaitList waits_;
  cl_event* event_ = nullptr;
  std::uint64_t begun_ns_ = 0;
  std::uint64_t sequence_ = 0;  // of the last command sent
  Ref<Event> made_;
};

}  // namespace weir::opencl::icd
