// SPDX-License-Identifier: Apache-2.0
// The ends of events with a driver that calls back late or never.
#include "opencl/executor/event_waiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "opencl/executor/event_ends.h"

namespace weir::opencl {
namespace {

/// A driver with four events, which the test ends. It calls back when the test says so.
struct LateDriver {
  static constexpr std::size_t kEvents = 4;
  struct Event {
    cl_int status = CL_RUNNING;
    int references = 1;
    std::function<void(cl_int)> callback{};
  };

  LateDriver() {
    only = this;
    table.clRetainEvent = [](cl_event event) -> cl_int {
      const std::lock_guard lock(only->mutex);
      ++Of(event).references;
      return CL_SUCCESS;
    };
    table.clReleaseEvent = [](cl_event event) -> cl_int {
      const std::lock_guard lock(only->mutex);
      --Of(event).references;
      return CL_SUCCESS;
    };
    table.clWaitForEvents = [](cl_uint, const cl_event* list) -> cl_int {
      std::unique_lock lock(only->mutex);
      only->changed.wait(lock, [&] { return Of(*list).status <= 0; });
      return Of(*list).status < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_SUCCESS;
    };
    table.clGetEventInfo = [](cl_event event, cl_event_info, std::size_t, void* value, std::size_t*) -> cl_int {
      const std::lock_guard lock(only->mutex);
      *static_cast<cl_int*>(value) = Of(event).status;
      return CL_SUCCESS;
    };
    table.clSetEventCallback = [](cl_event event, cl_int, void(CL_CALLBACK * call)(cl_event, cl_int, void*),
                                  void* data) -> cl_int {
      Of(event).callback = [=](cl_int status) { call(event, status, data); };
      return CL_SUCCESS;
    };
  }
  cl_event Handle(std::size_t i) { return reinterpret_cast<cl_event>(&events[i]); }
  void End(std::size_t i, cl_int status = CL_COMPLETE) {
    {
      const std::lock_guard lock(mutex);
      events[i].status = status;
    }
    changed.notify_all();
  }
  void CallBack(std::size_t i) { std::exchange(events[i].callback, nullptr)(events[i].status); }

  static Event& Of(cl_event event) { return *reinterpret_cast<Event*>(event); }
  static inline LateDriver* only = nullptr;
  cl_icd_dispatch table{};
  std::array<Event, kEvents> events{};
  std::mutex mutex;
  std::condition_variable changed;
};

class LateCallbacks : public ::testing::Test {
 protected:
  void When(std::size_t i) {
    ends_->When(driver_.Handle(i), [this, i](cl_int status) {
      const std::lock_guard lock(mutex_);
      told_.emplace_back(i, status);
      changed_.notify_all();
    });
  }
  std::vector<std::pair<std::size_t, cl_int>> Told(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_.size() >= count; });
    return told_;
  }
  /// Ends everything that is left, as a session does before its end.
  void Finish() {
    for (std::size_t i = 0; i < LateDriver::kEvents; ++i)
      driver_.End(i, std::min(driver_.events[i].status, CL_COMPLETE));
    ends_.reset();
    for (LateDriver::Event& event : driver_.events)
      if (event.callback) std::exchange(event.callback, nullptr)(event.status);
  }

  LateDriver driver_;
  std::unique_ptr<EventEnds> ends_ = std::make_unique<EventEnds>(driver_.table, true);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::size_t, cl_int>> told_;
};

using Ends = std::vector<std::pair<std::size_t, cl_int>>;

TEST_F(LateCallbacks, AreNotWaitedFor) {
  When(0);
  When(1);
  driver_.End(0);
  EXPECT_EQ(Told(1), (Ends{{0, CL_COMPLETE}}));
  driver_.End(1, CL_OUT_OF_RESOURCES);
  EXPECT_EQ(Told(2), (Ends{{0, CL_COMPLETE}, {1, CL_OUT_OF_RESOURCES}}));
  Finish();
  EXPECT_EQ(told_.size(), 2U) << "an end is told once, although the callbacks come";
}

TEST_F(LateCallbacks, TellTheEndOfAnEventBehindOneThatDoesNotEnd) {
  When(0);
  When(1);
  driver_.End(1);
  driver_.CallBack(1);
  EXPECT_EQ(Told(1), (Ends{{1, CL_COMPLETE}}));
  Finish();
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(LateCallbacks, AreWaitedForWhileTheClientHasUnsetUserEvents) {
  ends_->AddUserEvent();
  When(0);
  EXPECT_EQ(driver_.events[0].references, 2) << "one of the test, and one for looking up its failure";
  driver_.End(0);
  driver_.CallBack(0);
  EXPECT_EQ(Told(1), (Ends{{0, CL_COMPLETE}}));
  Finish();
}

TEST_F(LateCallbacks, AreWaitedForWhereAWaitFails) {
  driver_.table.clWaitForEvents = [](cl_uint, const cl_event*) -> cl_int { return CL_OUT_OF_RESOURCES; };
  When(0);
  When(1);
  driver_.End(1, CL_OUT_OF_RESOURCES);
  driver_.End(0);
  driver_.CallBack(0);
  driver_.CallBack(1);
  Finish();
  EXPECT_EQ(told_.size(), 2U);
  for (const auto& [event, status] : told_) EXPECT_EQ(status, event == 0 ? CL_COMPLETE : CL_OUT_OF_RESOURCES);
}

TEST_F(LateCallbacks, EventsAreReleased) {
  for (std::size_t i = 0; i < LateDriver::kEvents; ++i) When(i);
  Finish();
  EXPECT_EQ(told_.size(), LateDriver::kEvents);
  for (const LateDriver::Event& event : driver_.events) EXPECT_EQ(event.references, 1);
}

}  // namespace
}  // namespace weir::opencl
