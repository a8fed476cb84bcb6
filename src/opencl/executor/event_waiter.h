// SPDX-License-Identifier: Apache-2.0
// A thread that waits for events, for drivers that call back late: NVIDIA's calls an event's callback up to 20 ms after
// the event's end, but clWaitForEvents returns at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "opencl/channel/cl.h"

namespace weir::opencl {

/// The end of an event, which is reported once, however it is detected.
struct Ending {
  void Tell(cl_int status) {
    if (!told.exchange(true)) std::exchange(done, nullptr)(status);
  }
  std::function<void(cl_int)> done;
  std::atomic<bool> told{false};
};

class EventWaiter {
 public:
  explicit EventWaiter(const cl_icd_dispatch& cl) : cl_(cl) {}
  /// Waits for the events that are left. None of them may wait for a user event.
  ~EventWaiter();
  EventWaiter(const EventWaiter&) = delete;
  EventWaiter& operator=(const EventWaiter&) = delete;

  /// Tells `ending` soon after the event has ended. Events are waited for in order, so an event that ends before one
  /// that was added earlier is told later than it could be. The driver's callback must tell it too, therefore.
  void Add(cl_event event, std::shared_ptr<Ending> ending);

 private:
  void Run();

  const cl_icd_dispatch& cl_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<cl_event, std::shared_ptr<Ending>>> events_;  // each is retained
  bool over_ = false;
  std::thread thread_;  // started with the first event
};

}  // namespace weir::opencl
