// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/event_waiter.h"

#include "opencl/executor/event_ends.h"

namespace weir::opencl {

EventWaiter::~EventWaiter() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EventWaiter::Add(cl_event event, std::shared_ptr<Ending> ending) {
  cl_.clRetainEvent(event);
  {
    const std::lock_guard lock(mutex_);
    events_.emplace_back(event, std::move(ending));
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_one();
}

void EventWaiter::Run() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [this] { return over_ || !events_.empty(); });
    if (events_.empty()) return;
    const auto [event, ending] = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    if (!ending->told.load()) {
      const cl_int waited = cl_.clWaitForEvents(1, &event);
      // A wait that fails says nothing about an event that has no error; its callback tells the end.
      if (const cl_int failure = FailureOf(cl_, event); waited == CL_SUCCESS || failure < 0) ending->Tell(failure);
    }
    cl_.clReleaseEvent(event);
    lock.lock();
  }
}

}  // namespace weir::opencl
