// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/batches.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace weir::opencl {

void Batches::Open(Queue& queue, std::int64_t predicted_ns, Admission::Entry entry) {
  if (admission_->open() &&
      (queue_.get() != &queue || entry.alone || admission_->Full() || (entry.task && admission_->Unpaced())))
    Close();
  if (!admission_->open()) {
    entry.in_turn = ends_.user_events() == 0;
    entry.queue = &queue;
    admission_->Begin(predicted_ns, entry);
    first_ = nullptr;
  }
  if (queue_.get() != &queue) queue_ = std::static_pointer_cast<Queue>(queue.shared_from_this());
}

void Batches::NoteFirst(cl_event event) {
  if (!admission_->open() || first_ != nullptr) return;
  if (meter_.by_workers() && !admission_->MayWaitForClient()) return;
  cl_.clRetainEvent(event);
  first_ = event;
}

cl_event Batches::TailOf(Queue& queue) const {
  if (queue.in_order) {
    if (queue.last != nullptr) cl_.clRetainEvent(queue.last);
    return queue.last;
  }
  cl_event marker = nullptr;
  if (cl_.clEnqueueMarkerWithWaitList(queue.native, 0, nullptr, &marker) != CL_SUCCESS) return nullptr;
  return marker;
}

void Batches::CountNext(Queue& queue) {
  if (std::exchange(queue.counts_running, true)) return;
  if (!queue.running) queue.running = std::make_shared<RunningCommands>();
  const cl_event before = TailOf(queue);
  if (before == nullptr) return;
  ends_.When(before, [running = queue.running, number = queue.running->Begin(Keep(cl_, before))](cl_int) {
    running->End(number);
  });
  cl_.clReleaseEvent(before);
}

void Batches::Close() {
  if (!admission_->open()) return;
  Queue& queue = *queue_;
  const cl_event tail = TailOf(queue);
  cl_.clFlush(queue.native);
  std::erase_if(queue.pinned, [](const auto& pins) { return pins.expired(); });
  if (pins_) queue.pinned.push_back(pins_);
  const cl_event first = std::exchange(first_, nullptr);
  std::function<bool()> running;
  // In an out-of-order queue the tail is a marker, which never runs; the batch then has one command.
  if (const cl_event command = first != nullptr ? first : tail; command != nullptr && admission_->MayWaitForClient()) {
    running = [&cl = cl_, kept = Keep(cl_, command)] {
      cl_int status = CL_QUEUED;
      return cl.clGetEventInfo(kept.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr) ==
                 CL_SUCCESS &&
             status == CL_RUNNING;
    };
  }
  auto done = [admission = admission_, batch = std::shared_ptr<Admission::Batch>(admission_->Close(std::move(running))),
               &cl = cl_, first, tail, pins = std::exchange(pins_, nullptr)](cl_int status) mutable {
    std::optional<std::int64_t> device_ns = 0;
    if (first != nullptr && tail != nullptr) {
      const std::uint64_t start = TimeOf(cl, first, CL_PROFILING_COMMAND_START);
      // The tail may be a marker, for which a driver need not record times.
      const std::uint64_t end =
          std::max(TimeOf(cl, tail, CL_PROFILING_COMMAND_END), TimeOf(cl, first, CL_PROFILING_COMMAND_END));
      if (end > start) device_ns = static_cast<std::int64_t>(end - start);
    }
    if (status < 0) device_ns.reset();  // a command that fails may have run for long, and records no end
    if (first != nullptr) cl.clReleaseEvent(first);
    pins.reset();
    admission->Done(*batch, device_ns);
  };
  if (tail == nullptr) return done(CL_SUCCESS);  // none of its commands was accepted
  WhenEnded(queue, tail, std::move(done));
  cl_.clReleaseEvent(tail);
}

}  // namespace weir::opencl
