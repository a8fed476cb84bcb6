// SPDX-License-Identifier: Apache-2.0
// Reports the ends of events to one session, whatever the driver does with events that wait for a user event.
//
// When a user event fails, PoCL 3.1 fails the events that wait for it before clSetUserEventStatus returns, without
// calling their callbacks. While the client has unset user events, the ends are therefore also looked up here.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "opencl/channel/cl.h"
#include "opencl/executor/event_waiter.h"
#include "opencl/executor/objects.h"

namespace weir::opencl {

/// CL_COMPLETE, or the error if the event has failed.
cl_int FailureOf(const cl_icd_dispatch& cl, cl_event event);
/// 0: the event does not record this time.
std::uint64_t TimeOf(const cl_icd_dispatch& cl, cl_event event, cl_profiling_info name);

/// Retains the event as long as the result lives.
std::shared_ptr<_cl_event> Keep(const cl_icd_dispatch& cl, cl_event event);

class EventEnds {
 public:
  /// `calls_back_late`: the driver calls back long after an event's end.
  EventEnds(const cl_icd_dispatch& cl, bool calls_back_late)
      : cl_(cl), waiter_(calls_back_late ? std::make_unique<EventWaiter>(cl) : nullptr) {}
  EventEnds(const EventEnds&) = delete;
  EventEnds& operator=(const EventEnds&) = delete;

  /// Calls `done(status)` once, from any thread, when `event` has ended.
  template <typename DoneFunction>
  void When(cl_event event, DoneFunction done) {
    if (user_events_ == 0 && waiter_ == nullptr) return WhenSure(event, std::move(done));
    auto ending = std::make_shared<Ending>();
    ending->done = [shared = std::make_shared<DoneFunction>(std::move(done))](cl_int status) { (*shared)(status); };
    if (user_events_ != 0) {
      std::erase_if(may_fail_, [](const auto& one) { return one->ending->told.load(); });
      may_fail_.push_back(std::make_shared<MayFail>(cl_, event, ending));
    }
    WhenSure(event, [ending](cl_int status) { ending->Tell(status); });
    // With user events, a wait may last until a later message of the client.
    if (user_events_ == 0 && !ending->told.load()) waiter_->Add(event, std::move(ending));
  }

  /// The number of unset user events. While it is not 0, a command may wait for a later message.
  [[nodiscard]] int user_events() const { return user_events_; }
  /// Returns the new number of unset user events.
  int AddUserEvent() { return ++user_events_; }
  /// Sets the status of a user event on the client's behalf.
  void EndUserEvent(Event& event, cl_int status);

 private:
  /// The driver's callback holds only the Ending, because PoCL 3.1 never releases the data of a callback that it does
  /// not call.
  struct MayFail {
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

  /// The callback of an event's end: receives OpenCL's arguments and calls the stored function.
  template <typename DoneFunction>
  static void CL_CALLBACK CallDone(cl_event, cl_int status, void* data) {
    const std::unique_ptr<DoneFunction> done(static_cast<DoneFunction*>(data));
    (*done)(status);
  }

  /// As When, for an event that depends on no event of the client.
  template <typename DoneFunction>
  void WhenSure(cl_event event, DoneFunction done) {
    auto data = std::make_unique<DoneFunction>(std::move(done));
    if (cl_.clSetEventCallback(event, CL_COMPLETE, CallDone<DoneFunction>, data.get()) == CL_SUCCESS) {
      static_cast<void>(data.release());
    } else {
      (*data)(CL_OUT_OF_RESOURCES);
    }
  }

  const cl_icd_dispatch& cl_;
  int user_events_ = 0;
  /// Events enqueued while user events were unset: the driver may not report their failure.
  std::vector<std::shared_ptr<MayFail>> may_fail_;
  std::unique_ptr<EventWaiter> waiter_;  // null: the driver calls back in time
};

}  // namespace weir::opencl
