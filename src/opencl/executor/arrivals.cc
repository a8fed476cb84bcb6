// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/arrivals.h"

namespace weir::opencl {

void Arrivals::Expect(cl_command_queue queue, cl_event read, const proto::cl::Arrived& what) {
  cl_.clRetainEvent(read);
  const std::lock_guard lock(mutex_);
  expected_[queue].push_back({read, what});
}

void Arrivals::TellArrived() {
  for (auto queue = expected_.begin(); queue != expected_.end();) {
    std::deque<Read>& reads = queue->second;
    std::erase_if(reads, [&, waits = false](const Read& read) mutable {
      if (waits) return false;
      cl_int status = CL_QUEUED;
      cl_.clGetEventInfo(read.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
      if (status > CL_COMPLETE) {
        waits = queue->first != nullptr;  // in an in-order queue, later reads cannot have ended
        return false;
      }
      if (status == CL_COMPLETE) replies_->Send(read.what);
      cl_.clReleaseEvent(read.event);
      return true;
    });
    queue = reads.empty() ? expected_.erase(queue) : std::next(queue);
  }
}

void Arrivals::Forget() {
  const std::lock_guard lock(mutex_);
  for (const auto& [queue, reads] : expected_)
    for (const Read& read : reads) cl_.clReleaseEvent(read.event);
  expected_.clear();
}

}  // namespace weir::opencl
