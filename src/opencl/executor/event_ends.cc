// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/event_ends.h"

namespace weir::opencl {

std::uint64_t TimeOf(const cl_icd_dispatch& cl, cl_event event, cl_profiling_info name) {
  cl_ulong ns = 0;
  if (cl.clGetEventProfilingInfo(event, name, sizeof ns, &ns, nullptr) != CL_SUCCESS) return 0;
  return ns;
}

cl_int FailureOf(const cl_icd_dispatch& cl, cl_event event) {
  cl_int status = CL_QUEUED;
  const cl_int asked = cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return asked == CL_SUCCESS && status < 0 ? status : CL_COMPLETE;
}

std::shared_ptr<_cl_event> Keep(const cl_icd_dispatch& cl, cl_event event) {
  cl.clRetainEvent(event);
  return {event, [&cl](cl_event kept) { cl.clReleaseEvent(kept); }};
}

EventSpan SpanOf(const cl_icd_dispatch& cl, cl_event event) {
  return {.queued_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_QUEUED),
          .submit_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_SUBMIT),
          .start_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_START),
          .end_ns = TimeOf(cl, event, CL_PROFILING_COMMAND_END)};
}

void EventEnds::EndUserEvent(Event& event, cl_int status) {
  event.user = false;
  cl_.clSetUserEventStatus(event.native, status);
  --user_events_;
  for (const std::shared_ptr<MayFail>& one : may_fail_)
    if (const cl_int failure = status < 0 ? FailureOf(cl_, one->event) : CL_COMPLETE; failure < 0)
      one->ending->Tell(failure);
  if (user_events_ == 0) may_fail_.clear();
}

}  // namespace weir::opencl
