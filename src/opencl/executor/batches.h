// SPDX-License-Identifier: Apache-2.0
// The batches of one session. Commands of one queue pass the gate together (admission.h). A batch ends with an event,
// and unpins its memory objects then.
#pragma once

#include <cstdint>
#include <memory>

#include "opencl/executor/admission.h"
#include "opencl/executor/buffer_store.h"
#include "opencl/executor/event_ends.h"
#include "opencl/executor/objects.h"

namespace weir::opencl {

class Batches {
 public:
  Batches(const cl_icd_dispatch& cl, const Tenancy& tenancy, EventEnds& ends)
      : cl_(cl), meter_(tenancy.meter), ends_(ends), admission_(std::make_shared<Admission>(tenancy)) {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// Opens a batch of this queue unless one is open that takes another command. Waits as long as the gate requires.
  void Open(Queue& queue, std::int64_t predicted_ns, Admission::Entry entry);
  /// Keeps the event of the open batch's first command if events have to tell the batch's time or whether it runs.
  void NoteFirst(cl_event event);
  void Close();
  /// Forgets the queue of the last batch, at the session's end.
  void Forget() { queue_.reset(); }

  /// Whether the last opened batch is of this queue.
  [[nodiscard]] bool IsOf(const Object& queue) const { return queue_.get() == &queue; }
  /// The pins of the open batch; null: none yet. With elastic memory only.
  [[nodiscard]] std::shared_ptr<Pins>& pins() { return pins_; }
  /// An event for everything in the queue so far, which the caller must release. Null: the queue is empty. It may fail
  /// while earlier commands run.
  cl_event TailOf(Queue& queue) const;
  /// Counts the next command of the queue among those that may outlive later ones, and what is in the queue already.
  void CountNext(Queue& queue);
  /// Calls `done(status)` when the queue's tail and all commands before it have ended. `status`: the tail's.
  template <typename DoneFunction>
  void WhenEnded(const Queue& queue, cl_event tail, DoneFunction done) {
    if (!queue.running) return ends_.When(tail, std::move(done));
    ends_.When(tail, [running = queue.running, up_to = queue.running->last(), kept = Keep(cl_, tail),
                      done = std::make_shared<DoneFunction>(std::move(done)), &cl = cl_](cl_int status) {
      // Everything before a tail that has succeeded has ended, although the driver may say so later.
      if (status == CL_SUCCESS && FailureOf(cl, kept.get()) >= 0) return (*done)(status);
      running->When(up_to, [done, kept, status] { (*done)(status); });
    });
  }

  [[nodiscard]] Admission& admission() { return *admission_; }
  [[nodiscard]] const Admission& admission() const { return *admission_; }

 private:
  const cl_icd_dispatch& cl_;
  const DeviceMeter& meter_;
  EventEnds& ends_;
  const std::shared_ptr<Admission> admission_;
  std::shared_ptr<Queue> queue_;  // of the last opened batch
  cl_event first_ = nullptr;      // of the open batch's first command; null: none, or not needed
  std::shared_ptr<Pins> pins_;
};

}  // namespace weir::opencl
