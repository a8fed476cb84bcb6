// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/commands.h"

#include <string>
#include <utility>

namespace weir::opencl {

namespace wire = proto::cl;

cl_int Commands::Prepare(const wire::Enqueue& enqueue, Queue*& queue) {
  const cl_int error = objects_.Find(enqueue.queue, queue);
  if (error != CL_SUCCESS) return error;
  pending_.reset();
  if (ends_.user_events() > 0) {
    pending_ = std::make_shared<HostCharge>();
    if (!pending_->Take(client_.host_budget, kPendingCommandBytes)) return CL_OUT_OF_HOST_MEMORY;
    batches_.CountNext(*queue);
  } else {
    queue->counts_running = false;
  }
  if (enqueue.event != 0 && !client_.host_budget->Has(HostBytesOf(Kind::kEvent))) return CL_OUT_OF_HOST_MEMORY;
  waits_.clear();
  for (std::size_t i = 0; i < enqueue.waits.size(); ++i) {
    Event* event = nullptr;
    const cl_int found = objects_.Find(enqueue.waits[i], event);
    if (found == CL_INVALID_EVENT) return CL_INVALID_EVENT_WAIT_LIST;
    // When an event fails, PoCL 3.1 fails the waiting commands, and lets later ones wait for it forever.
    if (found != CL_SUCCESS || FailureOf(cl_, event->native) < 0) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    waits_.push_back(event->native);
  }
  WaitForEarlier(*queue);
  return CL_SUCCESS;
}

// PoCL 3.1 lets a command that comes after a failed one run before commands that came earlier.
void Commands::WaitForEarlier(const Queue& queue) {
  earlier_.clear();
  if (!queue.in_order || !queue.running || queue.last == nullptr || FailureOf(cl_, queue.last) >= 0) return;
  earlier_ = queue.running->Running();
  for (const RunningCommands::Event& event : earlier_)
    if (FailureOf(cl_, event.get()) >= 0) waits_.push_back(event.get());
}

void Commands::End(const wire::Enqueue& enqueue, Queue* queue, cl_int error, cl_event event, const char* attempted) {
  if (error != CL_SUCCESS) {
    const std::string why = memory_.TakeExplanation();
    client_.Complain(error, why.empty() ? attempted : (attempted + (": " + why)).c_str());
    // An error caused by another command's failure is reported by that command's event.
    if (enqueue.event == 0 && queue != nullptr && queue->first_error == CL_SUCCESS &&
        error != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
      queue->first_error = error;
  } else {
    batches_.NoteFirst(event);
    if (pending_ && event != nullptr)
      ends_.When(event, [kept = std::move(pending_), running = queue->running,
                         number = queue->running->Begin(Keep(cl_, event))](cl_int) { running->End(number); });
  }
  pending_.reset();
  earlier_.clear();
  std::shared_ptr<Event> named;
  if (enqueue.event != 0) {
    auto made = std::make_shared<Event>(cl_);
    if (event != nullptr) {
      cl_.clRetainEvent(event);
      made->native = event;
      made->queue = objects_.Any(enqueue.queue);
      made->profiling = queue->profiling;
    }
    made->error = error;
    // Without room for the event its id names nothing.
    if (client_.Charge(*made) == CL_SUCCESS) named = std::move(made);
  }
  if (event != nullptr && queue->in_order)
    queue->SetLast(event);
  else if (event != nullptr)
    cl_.clReleaseEvent(event);
  // Last, because a client may give an event the id of the queue itself.
  if (enqueue.event != 0) objects_.Place(enqueue.event, std::move(named));
}

void Commands::FreeAfter(cl_event event, std::shared_ptr<std::byte[]> copy, std::uint64_t ticket) {
  ends_.When(event, [copy = std::move(copy), ticket, replies = client_.replies](cl_int) {
    if (ticket != 0) replies->Send(wire::Freed{.ticket = ticket});
  });
}

}  // namespace weir::opencl
