// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/command_messages.h"

#include <algorithm>
#include <utility>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// Limit of the pieces of one launch.
constexpr std::uint64_t kPiecesMax = 4096;

/// A program that marks the ends of tasks, but has not done so for this many launches, is considered to have stopped.
constexpr int kLaunchesPerTaskMax = 256;

/// While the cost of a kernel is unknown, a piece is this fraction of its launch.
constexpr std::uint64_t kProbes = 64;

std::uint64_t PiecesOf(const KernelCost& cost, std::uint64_t items) {
  if (!cost.known()) return kProbes;
  return std::min(static_cast<std::uint64_t>(cost.PredictNs(items) / kQuantum.count()), kPiecesMax);
}

}  // namespace

// -- Kernels ---------------------------------------------------------------------------------------------------------

void CommandMessages::Do(const wire::NdRange& m) {
  Queue* queue = nullptr;
  Kernel* kernel = nullptr;
  cl_event event = nullptr;
  cl_int error = commands_.Prepare(m.enqueue, queue);
  if (error == CL_SUCCESS) error = objects_.Find(m.kernel, kernel);
  if (error == CL_SUCCESS && !kernel->arg_errors.empty()) error = kernel->arg_errors.begin()->second;
  if (error == CL_SUCCESS && (m.dimensions < 1 || m.dimensions > 3)) error = CL_INVALID_WORK_DIMENSION;
  if (error == CL_SUCCESS)
    for (const auto& arg : kernel->args)
      if (arg && arg->expired()) error = CL_INVALID_KERNEL_ARGS;
  if (error != CL_SUCCESS) return commands_.End(m.enqueue, queue, error, nullptr, "clEnqueueNDRangeKernel");
  if (shared_.store != nullptr) memory_.NoteArgs(*kernel);
  Launch launch{.dimensions = m.dimensions, .has_local = m.has_local != 0};
  std::copy_n(m.offset, m.dimensions, launch.offset);
  std::copy_n(m.global, m.dimensions, launch.global);
  if (launch.has_local) std::copy_n(m.local, m.dimensions, launch.local);
  const bool may_cut = shared_.analyzer != nullptr && !memory_.empty();
  if (may_cut && shared_.partition == core::PartitionMode::kAlways && parts_.Run(m, *queue, *kernel, launch))
    return CountLaunch(*queue);
  // While the gate is open there is nothing to wait for between pieces, and no cost need be known.
  const bool gated = shared_.agent.gated();
  const std::uint64_t items = Product(launch.global);
  const bool cut = gated && kernel->program->may_slice && queue->in_order &&
                   (!kernel->cost->known() || kernel->cost->PredictNs(items) > 2 * kQuantum.count());
  Slicer slicer(launch, cut ? PiecesOf(*kernel->cost, items) : 1);
  bool begins_task = queue->BeginsTask();
  std::shared_ptr<_cl_event> first;
  while (!slicer.done()) {
    if (stop_.load(std::memory_order_relaxed)) {
      error = CL_OUT_OF_RESOURCES;
      break;
    }
    if (event != nullptr && !first && queue->profiling) first = Keep(cl_, event);
    if (event != nullptr) queue->SetLast(std::exchange(event, nullptr));  // a batch may end with it
    const bool known = kernel->cost->known();
    const Launch piece = slicer.Next(known ? kernel->cost->ItemsIn(kQuantum.count()) : items / kProbes);
    error =
        LaunchOne(*queue, *kernel, piece, {.task = std::exchange(begins_task, false), .alone = gated && !known}, event);
    if (error != CL_SUCCESS && memory_.never_fits()) {
      const bool begun = event != nullptr;
      if (may_cut && !begun && parts_.why_not().empty() && parts_.Run(m, *queue, *kernel, launch))
        return CountLaunch(*queue);
      memory_.SayThatItNeverFits(parts_.why_not());
    }
    if (error != CL_SUCCESS) break;
    commands_.waits().clear();  // the first piece has waited, and the queue is in order
  }
  memory_.Forget();
  parts_.Forget();
  CountLaunch(*queue);
  commands_.End(m.enqueue, queue, error, event, "clEnqueueNDRangeKernel");
  Event* made = nullptr;
  if (first && m.enqueue.event != 0 && objects_.Find(m.enqueue.event, made) == CL_SUCCESS) made->first = first;
}

void CommandMessages::CountLaunch(Queue& queue) {
  if (++queue.launches > kLaunchesPerTaskMax) queue.ends_tasks = false;
  if (!queue.ends_tasks) batches_.admission().EndTask();
}

// Each piece claims the kernel's objects itself, because an order may evict them between two batches.
cl_int CommandMessages::LaunchOne(Queue& queue, Kernel& kernel, const Launch& launch, const Admission::Entry& entry,
                                  cl_event& event) {
  const std::uint64_t items = Product(launch.global);
  // Until two pieces have been measured, the second is predicted to take as long as the first, including compilation.
  const std::int64_t predicted_ns = kernel.cost->PredictNs(items);
  cl_int error = memory_.Admit(queue, predicted_ns, entry);
  if (error == CL_SUCCESS && shared_.store != nullptr) error = memory_.SetArgsAgain(kernel);
  if (error != CL_SUCCESS) return error;
  batches_.admission().AddLaunch(kernel.cost, items, predicted_ns);
  error = cl_.clEnqueueNDRangeKernel(queue.native, kernel.native, launch.dimensions, Sizes(launch.offset),
                                     Sizes(launch.global), launch.has_local ? Sizes(launch.local).values : nullptr,
                                     static_cast<cl_uint>(commands_.waits().size()),
                                     commands_.waits().empty() ? nullptr : commands_.waits().data(), &event);
  // Noted here, because a piece's batch may end with this event before the launch's command ends.
  if (error == CL_SUCCESS) batches_.NoteFirst(event);
  return error;
}

// -- Order -----------------------------------------------------------------------------------------------------------

void CommandMessages::Do(const wire::Marker& m) {
  commands_.Enqueue(m.enqueue, 0, "clEnqueueMarkerWithWaitList",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      return cl_.clEnqueueMarkerWithWaitList(queue, count, waits, event);
                    });
  Queue* queue = nullptr;
  if (m.ends_task == 0 || objects_.Find(m.enqueue.queue, queue) != CL_SUCCESS || queue->launches == 0) return;
  // Before the first marker, each launch counted as a task.
  if (std::exchange(queue->ends_tasks, true)) batches_.admission().EndTask();
  queue->launches = 0;
}

void CommandMessages::Do(const wire::Barrier& m) {
  commands_.Enqueue(m.enqueue, 0, "clEnqueueBarrierWithWaitList",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      return cl_.clEnqueueBarrierWithWaitList(queue, count, waits, event);
                    });
}

void CommandMessages::Do(const wire::Migrate& m) {
  std::vector<const Memory*> memories;
  cl_int found = CL_SUCCESS;
  for (std::size_t i = 0; i < m.objects.size() && found == CL_SUCCESS; ++i) {
    Memory* memory = nullptr;
    found = memory_.Reads(m.objects[i], memory);
    if (found == CL_SUCCESS) memories.push_back(memory);
  }
  commands_.Enqueue(m.enqueue, 0, "clEnqueueMigrateMemObjects",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      std::vector<cl_mem> objects;
                      objects.reserve(memories.size());
                      for (const Memory* memory : memories) objects.push_back(memory->native);
                      return cl_.clEnqueueMigrateMemObjects(queue, static_cast<cl_uint>(objects.size()), objects.data(),
                                                            m.flags, count, waits, event);
                    });
}

void CommandMessages::Do(const wire::Flush& m) {
  Queue* queue = nullptr;
  if (objects_.Find(m.queue, queue) != CL_SUCCESS) return;
  if (batches_.IsOf(*queue)) batches_.Close();
  cl_.clFlush(queue->native);
}

void CommandMessages::Do(const wire::Finish& m) {
  Queue* queue = nullptr;
  if (const cl_int error = objects_.Find(m.queue, queue); error != CL_SUCCESS)
    return client_.replies->Answer(m.request, error);
  const cl_int first_error = std::exchange(queue->first_error, CL_SUCCESS);
  if (const cl_event tail = batches_.TailOf(*queue); tail != nullptr) {
    cl_.clFlush(queue->native);
    // The driver may call the batches' callbacks after this one. An order that arrives after the answer must not find
    // their objects still pinned, nor unpinned later than objects that the client uses next.
    std::vector<std::weak_ptr<Pins>> pinned = queue->pinned;
    if (batches_.IsOf(*queue) && batches_.pins()) pinned.push_back(batches_.pins());
    batches_.WhenEnded(*queue, tail,
                       [replies = client_.replies, arrivals = client_.arrivals, request = m.request, first_error,
                        &cl = cl_, tail, pinned = std::move(pinned)](cl_int status) {
                         if (!pinned.empty() && status == CL_COMPLETE && FailureOf(cl, tail) >= 0)
                           for (const auto& weak : pinned)
                             if (const auto pins = weak.lock()) pins->Release();
                         const wire::Reply answer{.request = request, .status = first_error};
                         arrivals ? arrivals->Tell(answer) : replies->Send(answer);
                       });
    cl_.clReleaseEvent(tail);
  } else {
    client_.replies->Answer(m.request, first_error);
  }
  batches_.Close();
}

void CommandMessages::Do(const wire::Watch& m) {
  Event* event = nullptr;
  const cl_int error = objects_.Find(m.event, event);
  if (error != CL_SUCCESS) return client_.replies->Send(wire::EventDone{.event = m.event, .status = error});
  batches_.Close();
  if (const auto queue = event->queue.lock()) cl_.clFlush(static_cast<Queue&>(*queue).native);
  ends_.When(event->native, [replies = client_.replies, arrivals = client_.arrivals, clock = shared_.clock,
                             id = m.event, native = event->native, &cl = cl_, profiling = event->profiling,
                             span = event->span, first = event->first](cl_int status) {
    // PoCL 3.1 calls a late callback with the requested status even if the event has failed.
    wire::EventDone done{.event = id, .status = status < 0 ? status : FailureOf(cl, native)};
    EventSpan of = span ? *span : profiling ? SpanOf(cl, first ? first.get() : native) : EventSpan{};
    if (first) of.end_ns = TimeOf(cl, native, CL_PROFILING_COMMAND_END);
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
