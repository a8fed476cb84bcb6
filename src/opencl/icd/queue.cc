// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/queue.h"

#include <array>

#include "opencl/icd/enqueue.h"
#include "opencl/icd/info.h"

namespace weir::opencl::icd {

void Queue::End(Queue* queue) {
  queue->link->Release(queue->id);  // commands already issued are still carried out
  delete queue;
}

cl_int Queue::WaitUntilIdle() {
  if (idle()) return CL_SUCCESS;
  Answer answer;
  answer.queue = this;
  {
    Link::Sending sending(*link);
    if (!sending.usable()) return kGone;
    answer.sequence = issued.load(std::memory_order_relaxed);
    const std::uint32_t request = link->Expect(answer);
    if (!sending.Send(wire::Finish{.request = request, .queue = id})) return link->Unexpect(request), kGone;
    flushed.store(answer.sequence, std::memory_order_relaxed);
  }
  return link->Await(answer);
}

void Queue::Join() {
  std::vector<Ref<Queue>> others;
  {
    const Link::StateLock lock(*link);
    for (Queue* other : context->queues) others.emplace_back(other);
    context->queues.push_back(this);
    context->queue_count.store(context->queues.size());
  }
  for (const Ref<Queue>& other : others) other->AwaitWrites();
}

void Queue::Leave() {
  AwaitWrites();
  const Link::StateLock lock(*link);
  std::erase(context->queues, this);
  context->queue_count.store(context->queues.size());
}

// Another thread may create a second queue or a user event meanwhile. It increases a count and then reads `ahead`, so
// that one of the two threads sees what the other has done.
void Queue::RanAhead(std::uint64_t sequence) {
  for (std::uint64_t before = ahead.load(); before < sequence;)
    if (ahead.compare_exchange_weak(before, sequence)) break;
  if (!may_run_ahead())
    AwaitWrites();
  else if (link->user_events_unset() > 0)
    MarkWrites();
}

Event* Queue::Mark() {
  Command command;
  cl_event handle = nullptr;
  wire::Marker marker;
  if (command.Open(reinterpret_cast<cl_command_queue>(this), 0, nullptr, &handle) != CL_SUCCESS ||
      command.Send(marker, CL_COMMAND_MARKER) != CL_SUCCESS)
    return nullptr;
  return As<Event>(handle);
}

void Queue::MarkWrites() {
  const std::uint64_t last = ahead.load();
  if (ended.load() >= last) return;
  {
    const Link::StateLock lock(*link);
    if (behind_writes != nullptr && behind_writes->sequence >= last) return;
  }
  Event* before = Mark();
  if (before == nullptr) return;
  {
    const Link::StateLock lock(*link);
    std::swap(before, behind_writes);
  }
  if (before != nullptr) Drop(*before);
}

void Queue::AwaitWrites() {
  MarkWrites();
  Ref<Event> marker;
  {
    const Link::StateLock lock(*link);
    marker = Ref<Event>(behind_writes);
  }
  if (!marker) return;
  link->Watch(std::array<Event*, 1>{marker.get()});
  link->WaitUntil([&] { return marker->done(); });
  {
    const Link::StateLock lock(*link);
    if (behind_writes != marker.get()) return;
    behind_writes = nullptr;
  }
  Drop(*marker);
}

void Queue::Stage(std::uint64_t ticket, std::uint64_t bytes) {
  const Link::StateLock lock(*link);
  staged.push_back({ticket, bytes});
  staged_bytes += bytes;
}

void Queue::AwaitRoomToStage(std::uint64_t bytes, std::uint64_t most) {
  link->WaitUntil([&] {
    for (; !staged.empty() && !link->Owes(staged.front().ticket); staged.pop_front())
      staged_bytes -= staged.front().bytes;
    return staged.empty() || staged_bytes + bytes <= most;
  });
}

namespace {

constexpr cl_command_queue_properties kKnownProperties =
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;

cl_command_queue MakeQueue(cl_context context_handle, cl_device_id device_handle,
                           cl_command_queue_properties properties, std::vector<cl_queue_properties> given,
                           cl_int* error) {
  Context* context = As<Context>(context_handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  Device* device = As<Device>(device_handle);
  if (device == nullptr || !context->Has(*device)) return Refuse(CL_INVALID_DEVICE, error);
  if ((properties & ~(kKnownProperties | CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT)) != 0)
    return Refuse(CL_INVALID_VALUE, error);
  if ((properties & ~device->queue_properties) != 0) return Refuse(CL_INVALID_QUEUE_PROPERTIES, error);
  auto* queue = new Queue(*context, *device);
  queue->properties = properties;
  queue->given = std::move(given);
  bool sent = false;
  {
    Link::Sending sending(*context->link);
    if (sending.usable()) {
      queue->id = sending.NewId();
      sent = sending.Send(
          wire::CreateQueue{.id = queue->id, .context = context->id, .device = device->id, .properties = properties});
    }
  }
  if (sent) {
    queue->Join();
    return Give<cl_command_queue>(queue, error);
  }
  queue->id = 0;
  Drop(*queue);
  return Refuse(kGone, error);
}

}  // namespace

namespace api {

cl_command_queue CreateCommandQueue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                    cl_int* error) {
  return MakeQueue(context, device, properties, {}, error);
}

cl_command_queue CreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                  const cl_queue_properties* list, cl_int* error) {
  cl_command_queue_properties properties = 0;
  std::vector<cl_queue_properties> given;
  if (list != nullptr) {
    for (; *list != 0; list += 2) {
      given.insert(given.end(), list, list + 2);
      if (list[0] == CL_QUEUE_PROPERTIES)
        properties = list[1];
      else if (list[0] != CL_QUEUE_SIZE || (properties & CL_QUEUE_ON_DEVICE) == 0)
        return Refuse(CL_INVALID_VALUE, error);
    }
    given.push_back(0);
  }
  return MakeQueue(context, device, properties, std::move(given), error);
}

cl_int RetainCommandQueue(cl_command_queue queue) { return RetainHandle<Queue>(queue, CL_INVALID_COMMAND_QUEUE); }

cl_int ReleaseCommandQueue(cl_command_queue handle) {
  return ReleaseHandle<Queue>(handle, CL_INVALID_COMMAND_QUEUE, [handle](Queue& queue) {
    Flush(handle);
    queue.Leave();
  });
}

cl_int GetCommandQueueInfo(cl_command_queue handle, cl_command_queue_info name, std::size_t size, void* value,
                           std::size_t* size_ret) {
  const Queue* queue = As<Queue>(handle);
  if (queue == nullptr) return CL_INVALID_COMMAND_QUEUE;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_QUEUE_CONTEXT: return answer.Object<cl_context>(queue->context.get());
    case CL_QUEUE_DEVICE: return answer.Object<cl_device_id>(queue->device.get());
    case CL_QUEUE_REFERENCE_COUNT: return answer.Value(static_cast<cl_uint>(queue->references.load()));
    case CL_QUEUE_PROPERTIES: return answer.Value(queue->properties);
    case CL_QUEUE_PROPERTIES_ARRAY: return answer.List<cl_queue_properties>(queue->given);
    case CL_QUEUE_DEVICE_DEFAULT: return answer.Value(cl_command_queue{nullptr});
    case CL_QUEUE_SIZE: return CL_INVALID_COMMAND_QUEUE;  // it is not a device-side queue
    default: return CL_INVALID_VALUE;
  }
}

/// A function of OpenCL 1.0, of which only the query remains: the properties of a queue are fixed at its creation.
cl_int SetCommandQueueProperty(cl_command_queue handle, cl_command_queue_properties properties, cl_bool /*enable*/,
                               cl_command_queue_properties* before) {
  const Queue* queue = As<Queue>(handle);
  if (queue == nullptr) return CL_INVALID_COMMAND_QUEUE;
  if ((properties & ~kKnownProperties) != 0) return CL_INVALID_VALUE;
  if (before != nullptr) *before = queue->properties;
  return CL_INVALID_OPERATION;
}

cl_int Flush(cl_command_queue handle) {
  Queue* queue = As<Queue>(handle);
  if (queue == nullptr) return CL_INVALID_COMMAND_QUEUE;
  if (!queue->link->usable()) return kGone;
  const std::uint64_t issued = queue->issued.load();
  if (queue->flushed.load() >= issued || queue->idle()) return CL_SUCCESS;
  queue->flushed.store(issued);
  return queue->link->SendOne(wire::Flush{.queue = queue->id});
}

cl_int Finish(cl_command_queue handle) {
  Queue* queue = As<Queue>(handle);
  if (queue == nullptr) return CL_INVALID_COMMAND_QUEUE;
  if (!queue->link->usable()) return kGone;
  return queue->WaitUntilIdle();
}

// -- Markers and barriers --------------------------------------------------------------------------------------------

cl_int EnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint wait_count, const cl_event* wait_list,
                                 cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  wire::Marker marker{.ends_task = 1};
  return command.Send(marker, CL_COMMAND_MARKER);
}

cl_int EnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint wait_count, const cl_event* wait_list,
                                  cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  wire::Barrier barrier;
  const cl_int sent = command.Send(barrier, CL_COMMAND_BARRIER);
  // Another thread may have sent later commands meanwhile, for which maps then wait, too.
  const std::uint64_t issued = command.queue().issued.load();
  std::uint64_t before = command.queue().barrier.load();
  while (before < issued && !command.queue().barrier.compare_exchange_weak(before, issued)) {
  }
  return sent;
}

cl_int EnqueueMarker(cl_command_queue queue, cl_event* event) {
  if (As<Queue>(queue) == nullptr) return CL_INVALID_COMMAND_QUEUE;
  return event == nullptr ? CL_INVALID_VALUE : EnqueueMarkerWithWaitList(queue, 0, nullptr, event);
}

cl_int EnqueueBarrier(cl_command_queue queue) { return EnqueueBarrierWithWaitList(queue, 0, nullptr, nullptr); }

cl_int EnqueueWaitForEvents(cl_command_queue handle, cl_uint count, const cl_event* list) {
  const Queue* queue = As<Queue>(handle);
  if (queue == nullptr) return CL_INVALID_COMMAND_QUEUE;
  if (count == 0 || list == nullptr) return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < count; ++i)
    if (As<Event>(list[i]) == nullptr) return CL_INVALID_EVENT;
  return EnqueueBarrierWithWaitList(handle, count, list, nullptr);
}

}  // namespace api
}  // namespace weir::opencl::icd
