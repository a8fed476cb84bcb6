// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/event.h"

#include <algorithm>
#include <cstring>

#include "opencl/icd/box_copy.h"
#include "opencl/icd/info.h"
#include "platform/clock.h"

namespace weir::opencl::icd {

Event::Event(Context& of, Queue* in, cl_command_type what)
    : Object(kKind, of.link), context(&of), queue(in), type(what) {}

void Event::End(Event* event) {
  if (event->type == CL_COMMAND_USER && !event->done()) event->link->UserEventSet();
  event->link->Release(event->id);
  delete event;
}

void Deliver(Link& link, const Arrival& arrival) {
  if (arrival.of_more)
    StreamCopy(arrival.to, link.arena() + arrival.from, arrival.box[0]);
  else
    CopyBox({.base = arrival.to, .row_pitch = arrival.row_pitch, .slice_pitch = arrival.slice_pitch},
            Packed(link.arena() + arrival.from, arrival.box), arrival.box);
  link.Delivered(arrival.free_after);
}

void Settle(Event& event, cl_int status) {
  if (event.done()) return;
  event.status.store(status, std::memory_order_release);
  for (const EventCallback& callback : event.callbacks) {
    event.link->CallbackCame();
    event.link->Post([call = callback.call, user = callback.user, at = status < 0 ? status : callback.at,
                      held = Ref<Event>(&event)] { call(reinterpret_cast<cl_event>(held.get()), at, user); });
  }
  event.callbacks.clear();
  event.link->Wake();
}

bool HasEnded(const Event& event) {
  Link& link = *event.link;
  const auto known = [&] {
    return event.done() || event.queue->ended.load(std::memory_order_acquire) >= event.sequence;
  };
  link.Drain();
  if (!known()) link.Sync();
  return known();
}

Event* LocalEvent(Queue& queue, cl_command_type type, std::uint64_t begun_ns) {
  auto* event = new Event(*queue.context, &queue, type);
  event->queued_ns = event->submit_ns = event->start_ns = begun_ns;
  event->end_ns = queue.profiling() ? static_cast<std::uint64_t>(platform::NowNs()) : begun_ns;
  event->status.store(CL_COMPLETE, std::memory_order_release);
  return event;
}

void EndUpTo(Queue& queue, std::uint64_t sequence) {
  Link& link = *queue.link;
  std::vector<std::pair<Event*, std::unique_ptr<Arrival>>> arrived;
  {
    const Link::StateLock lock(link);
    while (!queue.arrivals.empty() && queue.arrivals.front()->sequence <= sequence) {
      Event* event = queue.arrivals.front();
      queue.arrivals.pop_front();
      arrived.emplace_back(event, std::move(event->arrival));
    }
  }
  for (auto& [event, arrival] : arrived) {
    if (arrival != nullptr) Deliver(link, *arrival);
    Drop(*event);
  }
  const Link::StateLock lock(link);
  if (queue.ended.load(std::memory_order_relaxed) < sequence) queue.ended.store(sequence, std::memory_order_release);
}

// -- Wait lists ------------------------------------------------------------------------------------------------------

cl_int WaitList::Read(const Context& of, cl_uint count, const cl_event* list) {
  if ((count == 0) != (list == nullptr)) return CL_INVALID_EVENT_WAIT_LIST;
  events_ = {list, count};
  if (count > kFew) more_.resize(count);
  for (const cl_event handle : events_) {
    const Event* event = As<Event>(handle);
    if (event == nullptr) return CL_INVALID_EVENT_WAIT_LIST;
    if (event->context.get() != &of) return CL_INVALID_CONTEXT;
    const cl_int status = event->Status();
    if (status < 0) failed_ = true;
    if (status == CL_COMPLETE || event->id == 0) continue;
    (more_.empty() ? few_ : more_.data())[count_++] = event->id;
  }
  return CL_SUCCESS;
}

void WaitList::Watch() const {
  if (count_ == 0) return;
  // An array of handles is an array of pointers to events.
  As<Event>(events_.front())->link->Watch({reinterpret_cast<Event* const*>(events_.data()), events_.size()});
}

bool WaitList::ended() const {
  return std::all_of(events_.begin(), events_.end(), [](cl_event handle) { return As<Event>(handle)->done(); });
}

cl_int WaitList::Wait() const {
  if (complete()) return CL_SUCCESS;
  if (count_ > 0) {
    Watch();
    if (!As<Event>(events_.front())->link->WaitUntil([this] { return ended(); })) return kGone;
  }
  for (const cl_event handle : events_)
    if (As<Event>(handle)->Status() < 0) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  return CL_SUCCESS;
}

namespace {

/// Updates an event's status. An event whose end was implied by a later command, a wait or a clFinish must not be seen
/// running. In an in-order queue that follows from the queue; otherwise only the executor knows, and with `ask` it is
/// asked once.
void LearnStatus(Event& event, bool ask) {
  Link& link = *event.link;
  const bool first = !event.watched.load(std::memory_order_relaxed);
  link.Watch(std::array<Event*, 1>{&event});
  link.Drain();
  if (event.done()) return;
  if (event.queue->ended.load(std::memory_order_acquire) >= event.sequence)
    link.WaitUntil([&event] { return event.done(); });
  else if (ask && first)
    link.Sync();
}

/// Called before a user event is created, so that the writes that ran ahead can be waited for without commands that
/// wait for the user event.
void MarkWritesIn(Context& context) {
  std::vector<Ref<Queue>> queues;
  {
    const Link::StateLock lock(*context.link);
    for (Queue* queue : context.queues) queues.emplace_back(queue);
  }
  for (const Ref<Queue>& queue : queues) queue->MarkWrites();
}

}  // namespace

// -- Entry points ----------------------------------------------------------------------------------------------------

namespace api {

cl_int RetainEvent(cl_event event) { return RetainHandle<Event>(event, CL_INVALID_EVENT); }
cl_int ReleaseEvent(cl_event event) { return ReleaseHandle<Event>(event, CL_INVALID_EVENT); }

cl_int WaitForEvents(cl_uint count, const cl_event* list) {
  if (count == 0 || list == nullptr) return CL_INVALID_VALUE;
  const Event* first = nullptr;
  for (cl_uint i = 0; i < count; ++i) {
    const Event* event = As<Event>(list[i]);
    if (event == nullptr) return CL_INVALID_EVENT;
    if (first == nullptr) first = event;
    if (event->context.get() != first->context.get()) return CL_INVALID_CONTEXT;
  }
  WaitList waits;
  if (const cl_int error = waits.Read(*first->context, count, list); error != CL_SUCCESS) return error;
  return waits.Wait();
}

cl_int GetEventInfo(cl_event handle, cl_event_info name, std::size_t size, void* value, std::size_t* size_ret) {
  Event* event = As<Event>(handle);
  if (event == nullptr) return CL_INVALID_EVENT;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_EVENT_COMMAND_QUEUE: return answer.Object<cl_command_queue>(event->queue.get());
    case CL_EVENT_CONTEXT: return answer.Object<cl_context>(event->context.get());
    case CL_EVENT_COMMAND_TYPE: return answer.Value(event->type);
    case CL_EVENT_REFERENCE_COUNT: return answer.Value(static_cast<cl_uint>(event->references.load()));
    case CL_EVENT_COMMAND_EXECUTION_STATUS: break;
    default: return CL_INVALID_VALUE;
  }
  if (!event->done() && event->id != 0 && event->queue) {
    LearnStatus(*event, !event->queue->in_order());
    if (!event->done() && !event->link->usable()) return answer.Value(kGone);
  }
  return answer.Value(event->Status());
}

cl_int GetEventProfilingInfo(cl_event handle, cl_profiling_info name, std::size_t size, void* value,
                             std::size_t* size_ret) {
  Event* event = As<Event>(handle);
  if (event == nullptr) return CL_INVALID_EVENT;
  if (!event->queue || !event->queue->profiling()) return CL_PROFILING_INFO_NOT_AVAILABLE;
  if (!event->done() && event->id != 0) LearnStatus(*event, true);
  if (event->Status() != CL_COMPLETE) return CL_PROFILING_INFO_NOT_AVAILABLE;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_PROFILING_COMMAND_QUEUED: return answer.Value<cl_ulong>(event->queued_ns);
    case CL_PROFILING_COMMAND_SUBMIT: return answer.Value<cl_ulong>(event->submit_ns);
    case CL_PROFILING_COMMAND_START: return answer.Value<cl_ulong>(event->start_ns);
    case CL_PROFILING_COMMAND_END:
    case CL_PROFILING_COMMAND_COMPLETE: return answer.Value<cl_ulong>(event->end_ns);
    default: return CL_INVALID_VALUE;
  }
}

cl_int SetEventCallback(cl_event handle, cl_int at, void(CL_CALLBACK* call)(cl_event, cl_int, void*), void* user) {
  Event* event = As<Event>(handle);
  if (event == nullptr) return CL_INVALID_EVENT;
  if (call == nullptr || (at != CL_SUBMITTED && at != CL_RUNNING && at != CL_COMPLETE)) return CL_INVALID_VALUE;
  Link& link = *event->link;
  if (!link.usable()) return kGone;
  {
    const Link::StateLock lock(link);
    const cl_int status = event->Status();
    // A command is submitted as soon as the program can hold its event; a user event from the start.
    if (status <= at) {
      link.Post([call, user, status, at, held = Ref<Event>(event)] {
        call(reinterpret_cast<cl_event>(held.get()), status < 0 ? status : at, user);
      });
      return CL_SUCCESS;
    }
    event->callbacks.push_back({call, user, at});
    link.ExpectCallback();
  }
  link.Watch(std::array<Event*, 1>{event});
  return CL_SUCCESS;
}

cl_event CreateUserEvent(cl_context handle, cl_int* error) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  auto* event = new Event(*context, nullptr, CL_COMMAND_USER);
  context->link->UserEventMade();
  MarkWritesIn(*context);
  {
    Link::Sending sending(*context->link);
    if (sending.usable()) {
      event->id = sending.NewId();
      if (sending.Send(wire::CreateUserEvent{.id = event->id, .context = context->id}))
        return Give<cl_event>(event, error);
    }
  }
  event->id = 0;
  Drop(*event);
  return Refuse(kGone, error);
}

cl_int SetUserEventStatus(cl_event handle, cl_int status) {
  Event* event = As<Event>(handle);
  if (event == nullptr || event->type != CL_COMMAND_USER) return CL_INVALID_EVENT;
  if (status > CL_COMPLETE) return CL_INVALID_VALUE;
  Link& link = *event->link;
  {
    const Link::StateLock lock(link);
    if (event->done()) return CL_INVALID_OPERATION;
    Settle(*event, status);
  }
  link.UserEventSet();
  return link.SendOne(wire::SetUserEvent{.id = event->id, .status = status});
}

}  // namespace api
}  // namespace weir::opencl::icd
