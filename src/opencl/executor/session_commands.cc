// SPDX-License-Identifier: Apache-2.0
// Commands: passing the gate, completion, kernels, and ordering.
#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "opencl/executor/session_command.h"
#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// Per launch.
constexpr std::uint64_t kPiecesMax = 4096;

/// A program that marks the ends of tasks, but has not done so for this many launches, is considered to have stopped.
constexpr int kLaunchesPerTaskMax = 256;

/// The first piece of a launch of an unknown kernel is this fraction of it.
constexpr std::uint64_t kProbes = 64;

std::uint64_t PiecesOf(const KernelCost& cost, std::uint64_t items) {
  if (!cost.known()) return kProbes;
  return std::min(static_cast<std::uint64_t>(cost.PredictNs(items) / kQuantum.count()), kPiecesMax);
}

/// The callback of an event's end: receives OpenCL's arguments and calls the stored function.
template <typename DoneFunction>
void CL_CALLBACK CallDone(cl_event, cl_int status, void* data) {
  const std::unique_ptr<DoneFunction> done(static_cast<DoneFunction*>(data));
  (*done)(status);
}

std::uint64_t TimeOf(const cl_icd_dispatch& cl, cl_event event, cl_profiling_info name) {
  cl_ulong ns = 0;
  if (cl.clGetEventProfilingInfo(event, name, sizeof ns, &ns, nullptr) != CL_SUCCESS) return 0;
  return ns;
}

/// CL_COMPLETE, or the error if the event has failed.
cl_int FailureOf(const cl_icd_dispatch& cl, cl_event event) {
  cl_int status = CL_QUEUED;
  const cl_int asked = cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return asked == CL_SUCCESS && status < 0 ? status : CL_COMPLETE;
}

}  // namespace

EventSpan SpanOf(const cl_icd_dispatch& cl, cl_event event) {
  return {.queued_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_QUEUED),
          .submit_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_SUBMIT),
          .start_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_START),
          .end_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_END)};
}

/// Reports the end of an event once, however it is detected. The driver's callback holds only the Ending, because
/// PoCL 3.1 never releases the data of a callback that it does not call.
struct Session::MayFail {
  struct Ending {
    void Tell(cl_int status) {
      if (!told.exchange(true)) std::exchange(done, nullptr)(status);
    }
    std::function<void(cl_int)> done;
    std::atomic<bool> told{false};
  };
  MayFail(const cl_icd_dispatch& table, cl_event of, std::shared_ptr<Ending> what)
      : cl(table), event(of), ending(std::move(what)) {
    cl.clRetainEvent(event);
  }
  ~MayFail() { cl.clReleaseEvent(event); }
  MayFail(const MayFail&) = delete;
  MayFail& operator=(const MayFail&) = delete;
  const cl_icd_dispatch& cl;
  const cl_event event;
  const std::shared_ptr<Ending> ending;
};

template <typename DoneFunction>
void Session::When(cl_event event, DoneFunction done) {
  if (user_events_ == 0) return WhenSure(event, std::move(done));
  auto ending = std::make_shared<MayFail::Ending>();
  ending->done = [shared = std::make_shared<DoneFunction>(std::move(done))](cl_int status) { (*shared)(status); };
  std::erase_if(may_fail_, [](const auto& one) { return one->ending->told.load(); });
  may_fail_.push_back(std::make_shared<MayFail>(cl_, event, ending));
  WhenSure(event, [ending](cl_int status) { ending->Tell(status); });
}

template <typename DoneFunction>
void Session::WhenSure(cl_event event, DoneFunction done) {
  auto data = std::make_unique<DoneFunction>(std::move(done));
  if (cl_.clSetEventCallback(event, CL_COMPLETE, CallDone<DoneFunction>, data.get()) == CL_SUCCESS) {
    static_cast<void>(data.release());
  } else {
    (*data)(CL_OUT_OF_RESOURCES);
  }
}

void Session::EndUserEvent(Event& event, cl_int status) {
  event.user = false;
  cl_.clSetUserEventStatus(event.native, status);
  --user_events_;
  if (status < 0) user_event_failed_ = true;
  for (const std::shared_ptr<MayFail>& one : may_fail_)
    if (const cl_int failure = status < 0 ? FailureOf(cl_, one->event) : CL_COMPLETE; failure < 0)
      one->ending->Tell(failure);
  if (user_events_ == 0) may_fail_.clear();
}

// -- Passing the gate ------------------------------------------------------------------------------------------------

void Session::OpenBatch(Queue& queue, std::uint32_t id, std::int64_t predicted_ns, Admission::Entry entry) {
  if (admission_->open() &&
      (open_queue_.get() != &queue || entry.alone || admission_->Full() || (entry.task && admission_->Unpaced())))
    CloseBatch();
  if (!admission_->open()) {
    entry.in_turn = user_events_ == 0;
    admission_->Begin(predicted_ns, entry);
    open_first_ = nullptr;
  }
  if (open_queue_.get() != &queue) open_queue_ = std::static_pointer_cast<Queue>(objects_.Any(id));
}

cl_int Session::Admit(Queue& queue, std::uint32_t id, std::int64_t predicted_ns, const Admission::Entry& entry) {
  never_fits_ = false;
  if (shared_.store != nullptr && !uses_.empty()) {
    if (const cl_int error = Claim(queue, id, predicted_ns, entry); error != CL_SUCCESS) return error;
  } else {
    OpenBatch(queue, id, predicted_ns, entry);
  }
  admission_->Add(predicted_ns);
  return CL_SUCCESS;
}

void Session::NoteFirst(cl_event event) {
  if (!admission_->open() || open_first_ != nullptr) return;
  if (shared_.meter.by_workers() && !admission_->MayWaitForClient()) return;
  cl_.clRetainEvent(event);
  open_first_ = event;
}

cl_event Session::TailOf(Queue& queue) {
  if (queue.in_order) {
    if (queue.last != nullptr) cl_.clRetainEvent(queue.last);
    return queue.last;
  }
  cl_event marker = nullptr;
  if (cl_.clEnqueueMarkerWithWaitList(queue.native, 0, nullptr, &marker) != CL_SUCCESS) return nullptr;
  return marker;
}

void Session::CloseBatch() {
  if (!admission_->open()) return;
  Queue& queue = *open_queue_;
  const cl_event tail = TailOf(queue);
  cl_.clFlush(queue.native);
  std::erase_if(queue.pinned, [](const auto& pins) { return pins.expired(); });
  if (pins_) queue.pinned.push_back(pins_);
  const cl_event first = std::exchange(open_first_, nullptr);
  std::function<bool()> running;
  // In an out-of-order queue the tail is a marker, which never runs; the batch then has one command.
  if (const cl_event command = first != nullptr ? first : tail; command != nullptr && admission_->MayWaitForClient()) {
    cl_.clRetainEvent(command);
    running = [&cl = cl_,
               kept = std::shared_ptr<_cl_event>(command, [&cl = cl_](cl_event event) { cl.clReleaseEvent(event); })] {
      cl_int status = CL_QUEUED;
      return cl.clGetEventInfo(kept.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr) ==
                 CL_SUCCESS &&
             status == CL_RUNNING;
    };
  }
  auto done = [admission = admission_, batch = std::shared_ptr<Admission::Batch>(admission_->Close(std::move(running))),
               &cl = cl_, first, tail, pins = std::exchange(pins_, nullptr)](cl_int) mutable {
    std::int64_t device_ns = 0;
    if (first != nullptr && tail != nullptr) {
      const std::uint64_t start = TimeOf(cl, first, CL_PROFILING_COMMAND_START);
      // The tail may be a marker, for which a driver need not record times.
      const std::uint64_t end =
          std::max(TimeOf(cl, tail, CL_PROFILING_COMMAND_END), TimeOf(cl, first, CL_PROFILING_COMMAND_END));
      if (end > start) device_ns = static_cast<std::int64_t>(end - start);
    }
    if (first != nullptr) cl.clReleaseEvent(first);
    pins.reset();
    admission->Done(*batch, device_ns);
  };
  if (tail == nullptr) return done(CL_SUCCESS);  // none of its commands was accepted
  When(tail, std::move(done));
  cl_.clReleaseEvent(tail);
}

// -- Any command -----------------------------------------------------------------------------------------------------

cl_int Session::PrepareCommand(const wire::Enqueue& enqueue, Queue*& queue) {
  const cl_int error = objects_.Find(enqueue.queue, queue);
  if (error != CL_SUCCESS) return error;
  if (enqueue.event != 0 && !host_budget_->Has(HostBytesOf(Kind::kEvent))) return CL_OUT_OF_HOST_MEMORY;
  waits_.clear();
  for (std::size_t i = 0; i < enqueue.waits.size(); ++i) {
    Event* event = nullptr;
    const cl_int found = objects_.Find(enqueue.waits[i], event);
    if (found == CL_INVALID_EVENT) return CL_INVALID_EVENT_WAIT_LIST;
    // When an event fails, PoCL 3.1 fails the waiting commands, and lets later ones wait for it forever.
    if (found != CL_SUCCESS || FailureOf(cl_, event->native) < 0) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    waits_.push_back(event->native);
  }
  return CL_SUCCESS;
}

/// Takes over the reference to `event`.
void Session::EndCommand(const wire::Enqueue& enqueue, Queue* queue, cl_int error, cl_event event,
                         const char* attempted) {
  if (error != CL_SUCCESS) {
    Complain(error, why_not_.empty() ? attempted : (attempted + (": " + why_not_)).c_str());
    why_not_.clear();
    // An error caused by another command's failure is reported by that command's event.
    if (enqueue.event == 0 && queue != nullptr && queue->first_error == CL_SUCCESS &&
        error != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
      queue->first_error = error;
  } else {
    NoteFirst(event);
  }
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
    if (Charge(*made) == CL_SUCCESS) named = std::move(made);
  }
  if (event != nullptr && queue->in_order)
    queue->SetLast(event);
  else if (event != nullptr)
    cl_.clReleaseEvent(event);
  // Last, because a client may give an event the id of the queue itself.
  if (enqueue.event != 0) Place(enqueue.event, std::move(named));
}

void Session::FreeAfter(cl_event event, std::shared_ptr<std::byte[]> copy, std::uint64_t ticket) {
  When(event, [copy = std::move(copy), ticket, replies = replies_](cl_int) {
    if (ticket != 0) replies->Send(wire::Freed{.ticket = ticket});
  });
}

// -- Kernels ---------------------------------------------------------------------------------------------------------

void Session::Do(const wire::NdRange& m) {
  Queue* queue = nullptr;
  Kernel* kernel = nullptr;
  cl_event event = nullptr;
  cl_int error = PrepareCommand(m.enqueue, queue);
  if (error == CL_SUCCESS) error = objects_.Find(m.kernel, kernel);
  if (error == CL_SUCCESS) error = kernel->arg_error;
  if (error == CL_SUCCESS && (m.dimensions < 1 || m.dimensions > 3)) error = CL_INVALID_WORK_DIMENSION;
  if (error == CL_SUCCESS)
    for (const auto& arg : kernel->args)
      if (arg && arg->expired()) error = CL_INVALID_KERNEL_ARGS;
  if (error != CL_SUCCESS) return EndCommand(m.enqueue, queue, error, nullptr, "clEnqueueNDRangeKernel");
  if (shared_.store != nullptr) NoteArgs(*kernel);
  Launch launch{.dimensions = m.dimensions, .has_local = m.has_local != 0};
  std::copy_n(m.offset, m.dimensions, launch.offset);
  std::copy_n(m.global, m.dimensions, launch.global);
  if (launch.has_local) std::copy_n(m.local, m.dimensions, launch.local);
  const bool may_cut = shared_.analyzer != nullptr && !uses_.empty();
  if (may_cut && shared_.partition == core::PartitionMode::kAlways && DoInParts(m, *queue, *kernel, launch))
    return CountLaunch(*queue);
  // While the gate is open there is nothing to wait for between pieces, and no cost need be known.
  const bool gated = shared_.agent.gated();
  const std::uint64_t items = Product(launch.global);
  const bool cut = gated && kernel->program->may_slice && queue->in_order &&
                   (!kernel->cost->known() || kernel->cost->PredictNs(items) > 2 * kQuantum.count());
  Slicer slicer(launch, cut ? PiecesOf(*kernel->cost, items) : 1);
  bool begins_task = queue->BeginsTask();
  while (!slicer.done()) {
    if (stop_.load(std::memory_order_relaxed)) {
      error = CL_OUT_OF_RESOURCES;
      break;
    }
    if (event != nullptr) queue->SetLast(std::exchange(event, nullptr));  // a batch may end with it
    const bool known = kernel->cost->known();
    const Launch piece = slicer.Next(known ? kernel->cost->ItemsIn(kQuantum.count()) : items / kProbes);
    error = LaunchOne(m.enqueue.queue, *queue, *kernel, piece,
                      {.task = std::exchange(begins_task, false), .alone = gated && !known}, event);
    if (error != CL_SUCCESS && never_fits_) {
      const bool begun = event != nullptr;
      if (may_cut && !begun && no_parts_.empty() && DoInParts(m, *queue, *kernel, launch)) return CountLaunch(*queue);
      SayThatItNeverFits();
    }
    if (error != CL_SUCCESS) break;
    waits_.clear();  // the first piece has waited, and the queue is in order
  }
  uses_.clear();
  no_parts_.clear();
  CountLaunch(*queue);
  EndCommand(m.enqueue, queue, error, event, "clEnqueueNDRangeKernel");
}

void Session::CountLaunch(Queue& queue) {
  if (++queue.launches > kLaunchesPerTaskMax) queue.ends_tasks = false;
  if (!queue.ends_tasks) admission_->EndTask();
}

// Each piece claims the kernel's objects itself, because an order may evict them between two batches.
cl_int Session::LaunchOne(std::uint32_t id, Queue& queue, Kernel& kernel, const Launch& launch,
                          const Admission::Entry& entry, cl_event& event) {
  const std::uint64_t items = Product(launch.global);
  // Until two pieces have been measured, the second is predicted to take as long as the first, including compilation.
  const std::int64_t predicted_ns = kernel.cost->PredictNs(items);
  cl_int error = Admit(queue, id, predicted_ns, entry);
  if (error == CL_SUCCESS && shared_.store != nullptr) error = SetArgsAgain(kernel);
  if (error != CL_SUCCESS) return error;
  admission_->AddLaunch(kernel.cost, items, predicted_ns);
  error =
      cl_.clEnqueueNDRangeKernel(queue.native, kernel.native, launch.dimensions, Sizes(launch.offset),
                                 Sizes(launch.global), launch.has_local ? Sizes(launch.local).values : nullptr,
                                 static_cast<cl_uint>(waits_.size()), waits_.empty() ? nullptr : waits_.data(), &event);
  // Here, because a piece's batch may end with this event before the launch's command ends.
  if (error == CL_SUCCESS) NoteFirst(event);
  return error;
}

// -- Order -----------------------------------------------------------------------------------------------------------

void Session::Do(const wire::Marker& m) {
  Command(m.enqueue, 0, "clEnqueueMarkerWithWaitList",
          [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
            return cl_.clEnqueueMarkerWithWaitList(queue, count, waits, event);
          });
  Queue* queue = nullptr;
  if (m.ends_task == 0 || objects_.Find(m.enqueue.queue, queue) != CL_SUCCESS || queue->launches == 0) return;
  // Before the first marker, each launch counted as a task.
  if (std::exchange(queue->ends_tasks, true)) admission_->EndTask();
  queue->launches = 0;
}

void Session::Do(const wire::Barrier& m) {
  Command(m.enqueue, 0, "clEnqueueBarrierWithWaitList",
          [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
            return cl_.clEnqueueBarrierWithWaitList(queue, count, waits, event);
          });
}

void Session::Do(const wire::Migrate& m) {
  std::vector<const Memory*> memories;
  cl_int found = CL_SUCCESS;
  for (std::size_t i = 0; i < m.objects.size() && found == CL_SUCCESS; ++i) {
    Memory* memory = nullptr;
    found = Reads(m.objects[i], memory);
    if (found == CL_SUCCESS) memories.push_back(memory);
  }
  Command(m.enqueue, 0, "clEnqueueMigrateMemObjects",
          [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
            if (found != CL_SUCCESS) return found;
            std::vector<cl_mem> objects;
            objects.reserve(memories.size());
            for (const Memory* memory : memories) objects.push_back(memory->native);
            return cl_.clEnqueueMigrateMemObjects(queue, static_cast<cl_uint>(objects.size()), objects.data(), m.flags,
                                                  count, waits, event);
          });
}

void Session::Do(const wire::Flush& m) {
  Queue* queue = nullptr;
  if (objects_.Find(m.queue, queue) != CL_SUCCESS) return;
  if (open_queue_.get() == queue) CloseBatch();
  cl_.clFlush(queue->native);
}

void Session::Do(const wire::Finish& m) {
  Queue* queue = nullptr;
  if (const cl_int error = objects_.Find(m.queue, queue); error != CL_SUCCESS)
    return replies_->Answer(m.request, error);
  const cl_int first_error = std::exchange(queue->first_error, CL_SUCCESS);
  if (const cl_event tail = TailOf(*queue); tail != nullptr) {
    cl_.clFlush(queue->native);
    // The driver may call the batches' callbacks after this one. An order that arrives after the answer must not find
    // their objects still pinned, nor unpinned later than objects that the client uses next.
    std::vector<std::weak_ptr<Pins>> pinned;
    if (!user_event_failed_) {
      pinned = queue->pinned;
      if (open_queue_.get() == queue && pins_) pinned.push_back(pins_);
    }
    When(tail, [replies = replies_, arrivals = arrivals_, request = m.request, first_error, &cl = cl_, tail,
                pinned = std::move(pinned)](cl_int status) {
      if (!pinned.empty() && status == CL_COMPLETE && FailureOf(cl, tail) >= 0)
        for (const auto& weak : pinned)
          if (const auto pins = weak.lock()) pins->Release();
      const wire::Reply answer{.request = request, .status = first_error};
      arrivals ? arrivals->Tell(answer) : replies->Send(answer);
    });
    cl_.clReleaseEvent(tail);
  } else {
    replies_->Answer(m.request, first_error);
  }
  CloseBatch();
}

void Session::Do(const wire::Watch& m) {
  Event* event = nullptr;
  const cl_int error = objects_.Find(m.event, event);
  if (error != CL_SUCCESS) return replies_->Send(wire::EventDone{.event = m.event, .status = error});
  CloseBatch();
  if (const auto queue = event->queue.lock()) cl_.clFlush(static_cast<Queue&>(*queue).native);
  When(event->native,
       [replies = replies_, arrivals = arrivals_, clock = shared_.clock, id = m.event, native = event->native,
        &cl = cl_, profiling = event->profiling, span = event->span](cl_int status) {
         // PoCL 3.1 calls a late callback with the requested status even if the event has failed.
         wire::EventDone done{.event = id, .status = status < 0 ? status : FailureOf(cl, native)};
         const EventSpan of = span ? *span : profiling ? SpanOf(cl, native) : EventSpan{};
         if (of.end_ns != 0) {
           if (!span) clock->Observe(static_cast<std::int64_t>(of.end_ns), platform::NowNs());
           const auto at = [&](std::uint64_t ns) {
             return static_cast<std::uint64_t>(clock->NodeNs(static_cast<std::int64_t>(ns)));
           };
           done.queued_ns = at(of.queued_ns);
           done.submit_ns = at(of.submit_ns);
           done.start_ns = at(of.start_ns);
           done.end_ns = at(of.end_ns);
         }
         arrivals ? arrivals->Tell(done) : replies->Send(done);
       });
}

}  // namespace weir::opencl
