// SPDX-License-Identifier: Apache-2.0
// Events and waiting.
#include <optional>

#include "emulator/opencl/driver.h"
#include "emulator/opencl/info.h"

namespace weir::emulator::cl {
namespace {

cl_int CL_API_CALL WaitForEvents(cl_uint count, const cl_event* events) {
  return Guarded([&]() -> cl_int {
    if (count == 0 || events == nullptr) return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < count; ++i)
      if (EventOf(events[i]) == nullptr) return CL_INVALID_EVENT;
    bool failed = false;
    for (cl_uint i = 0; i < count; ++i)
      if (const Event* event = EventOf(events[i]); event->queue != nullptr) Pocl().clFlush(event->queue->native);
    for (cl_uint i = 0; i < count; ++i) failed |= Driver::The().Wait(*EventOf(events[i])) < 0;
    return failed ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_SUCCESS;
  });
}

cl_int CL_API_CALL GetEventInfo(cl_event handle, cl_event_info name, std::size_t room, void* value, std::size_t* size) {
  return Guarded([&]() -> cl_int {
    const Event* event = EventOf(handle);
    if (event == nullptr) return CL_INVALID_EVENT;
    const InfoAnswer answer{room, value, size};
    switch (name) {
      case CL_EVENT_COMMAND_QUEUE: return answer.Value(event->queue == nullptr ? nullptr : event->queue->native);
      case CL_EVENT_COMMAND_TYPE: return answer.Value(event->type);
      case CL_EVENT_REFERENCE_COUNT: return answer.Value<cl_uint>(event->refs.load());
      case CL_EVENT_COMMAND_EXECUTION_STATUS: return answer.Value(Driver::The().StatusOf(*event));
      default: return Pocl().clGetEventInfo(event->native, name, room, value, size);
    }
  });
}

cl_int CL_API_CALL RetainEvent(cl_event handle) {
  Event* event = EventOf(handle);
  if (event == nullptr) return CL_INVALID_EVENT;
  Driver::Retain(*event);
  return CL_SUCCESS;
}

cl_int CL_API_CALL ReleaseEvent(cl_event handle) {
  Event* event = EventOf(handle);
  if (event == nullptr) return CL_INVALID_EVENT;
  Driver::Release(*event);
  return CL_SUCCESS;
}

cl_int CL_API_CALL GetEventProfilingInfo(cl_event handle, cl_profiling_info name, std::size_t room, void* value,
                                         std::size_t* size) {
  return Guarded([&]() -> cl_int {
    const Event* event = EventOf(handle);
    if (event == nullptr) return CL_INVALID_EVENT;
    if (event->queue == nullptr || !event->queue->profiling) return CL_PROFILING_INFO_NOT_AVAILABLE;
    const std::optional<Times> times = Driver::The().TimesOf(*event);
    if (!times) return CL_PROFILING_INFO_NOT_AVAILABLE;
    const InfoAnswer answer{room, value, size};
    const auto at = [&](Instant time) { return answer.Value(static_cast<cl_ulong>(NsOf(time))); };
    switch (name) {
      case CL_PROFILING_COMMAND_QUEUED: return at(times->queued);
      case CL_PROFILING_COMMAND_SUBMIT: return at(times->submitted);
      case CL_PROFILING_COMMAND_START: return at(times->began);
      case CL_PROFILING_COMMAND_END:
      case CL_PROFILING_COMMAND_COMPLETE: return at(times->ended);
      default: return CL_INVALID_VALUE;
    }
  });
}

cl_int CL_API_CALL SetEventCallback(cl_event handle, cl_int at, void(CL_CALLBACK* call)(cl_event, cl_int, void*),
                                    void* data) {
  return Guarded([&]() -> cl_int {
    Event* event = EventOf(handle);
    if (event == nullptr) return CL_INVALID_EVENT;
    if (call == nullptr || (at != CL_COMPLETE && at != CL_RUNNING && at != CL_SUBMITTED)) return CL_INVALID_VALUE;
    Driver::The().AddCallback(*event, {.at = at, .call = call, .data = data});
    return CL_SUCCESS;
  });
}

cl_event CL_API_CALL CreateUserEvent(cl_context context, cl_int* error) {
  cl_int status = CL_OUT_OF_HOST_MEMORY;
  cl_event made = nullptr;
  Guarded([&] {
    if (const cl_event native = Pocl().clCreateUserEvent(context, &status); native != nullptr)
      made = Driver::The().AddUserEvent(native);
    return status;
  });
  if (error != nullptr) *error = status;
  return made;
}

cl_int CL_API_CALL SetUserEventStatus(cl_event handle, cl_int status) {
  return Guarded([&]() -> cl_int {
    Event* event = EventOf(handle);
    if (event == nullptr) return CL_INVALID_EVENT;
    return Driver::The().SetUserEvent(*event, status);
  });
}

}  // namespace

void AddEventCalls(cl_icd_dispatch& table) {
  table.clWaitForEvents = WaitForEvents;
  table.clGetEventInfo = GetEventInfo;
  table.clRetainEvent = RetainEvent;
  table.clReleaseEvent = ReleaseEvent;
  table.clGetEventProfilingInfo = GetEventProfilingInfo;
  table.clSetEventCallback = SetEventCallback;
  table.clCreateUserEvent = CreateUserEvent;
  table.clSetUserEventStatus = SetUserEventStatus;
}

}  // namespace weir::emulator::cl
