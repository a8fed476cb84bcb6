// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/enqueue.h"

namespace weir::opencl::icd {
namespace {

constexpr std::size_t kCommandBytesMax = 256;  // of a command without its wait list, with its content in the arena
/// Limit of the events that the executor must wait for, so that each command with content in the arena can be sent. If
/// it could not be sent, nothing would free the content's range.
constexpr std::size_t kWaitsMax = (wire::kMessageBytesMax - kCommandBytesMax) / sizeof(std::uint32_t);

}  // namespace

cl_int Command::Open(cl_command_queue queue, cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  queue_ = As<Queue>(queue);
  if (queue_ == nullptr) return CL_INVALID_COMMAND_QUEUE;
  if (!queue_->link->usable()) return kGone;
  event_ = event;
  if (event != nullptr && queue_->profiling()) begun_ns_ = static_cast<std::uint64_t>(platform::NowNs());
  if (wait_count == 0 && wait_list == nullptr) return CL_SUCCESS;
  if (const cl_int error = waits_.Read(*queue_->context, wait_count, wait_list); error != CL_SUCCESS) return error;
  return waits_.ids().size() <= kWaitsMax ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

cl_int Command::WaitUntilItMay() const {
  if (may_complete_locally()) return CL_SUCCESS;
  waits_.Watch();
  if (const cl_int error = queue_->WaitUntilIdle(); error != CL_SUCCESS) return error;
  return waits_.Wait();
}

cl_int Command::WaitUntilItMay(std::int64_t until_ns) const {
  if (may_complete_locally()) return CL_SUCCESS;
  const auto in_vain = [&] { return link().user_events_unset() > 0 && platform::NowNs() >= until_ns; };
  if (in_vain()) return CL_OUT_OF_RESOURCES;
  waits_.Watch();
  Ref<Event> last;  // the end of what is in the queue
  if (!queue_->idle()) {
    Event* const marker = queue_->Mark();
    if (marker == nullptr) return link().usable() ? CL_OUT_OF_RESOURCES : kGone;
    last = Ref<Event>(marker);
    Drop(*marker);
    link().Watch(std::array<Event*, 1>{marker});
  }
  const auto ended = [&] { return (!last || last->done()) && waits_.ended(); };
  if (!link().WaitUntil([&] { return ended() || in_vain(); })) return kGone;
  if (!link().usable()) return kGone;
  // The end of a marker that has failed says nothing of the commands before it.
  if (!ended() || (last && last->Status() < CL_COMPLETE)) return CL_OUT_OF_RESOURCES;
  return waits_.Wait();
}

cl_int Command::CompleteLocally(cl_command_type type) {
  if (event_ != nullptr) *event_ = reinterpret_cast<cl_event>(LocalEvent(*queue_, type, begun_ns_));
  return CL_SUCCESS;
}

cl_int Command::EndWrite(cl_bool blocking) {
  if (blocking == CL_FALSE) return CL_SUCCESS;
  if (made_) return WaitForIt();
  queue_->RanAhead(sequence_);
  return CL_SUCCESS;
}

Event* Command::NewEvent(cl_command_type type) {
  auto* event = new Event(*queue_->context, queue_, type);
  event->queued_ns = begun_ns_;
  return event;
}

void Command::Expect(Event& event, std::unique_ptr<Arrival> arrival, Link::Sending& sending) {
  Hold(event);
  {
    const Link::StateLock lock(link());
    link().WillDeliver(arrival->free_after);
    event.arrival = std::move(arrival);
    queue_->arrivals.push_back(&event);
  }
  made_ = Ref<Event>(&event);
  link().Watch(event, sending);
}

void Command::Hand(Event* event, bool whole) {
  if (event_ == nullptr || !whole) {  // an internal event
    event->references.store(0, std::memory_order_relaxed);
    Drop(*event);
    return;
  }
  made_ = Ref<Event>(event);
  *event_ = reinterpret_cast<cl_event>(event);
}

cl_int Command::NotSent(Event* event, cl_int error) {
  if (event != nullptr) Drop(*event);
  return error;
}

cl_int Command::WaitFor(Event& event) {
  link().Watch(std::array<Event*, 1>{&event});
  if (!link().WaitUntil([&event] { return event.done(); }, Link::Of::kAnswer)) return kGone;
  const cl_int status = event.Status();
  if (status >= CL_COMPLETE) return CL_SUCCESS;
  return waits_.complete() ? status : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
}

}  // namespace weir::opencl::icd
