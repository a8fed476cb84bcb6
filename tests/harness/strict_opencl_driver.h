// SPDX-License-Identifier: Apache-2.0
// The state of strict_opencl.h's driver, and how its commands and events run.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "opencl/channel/cl.h"
#include "tests/harness/strict_opencl_objects.h"

namespace weir::testing::strict_cl {

struct Driver {
  cl_icd_dispatch table{};
  Device device, part;
  unsigned refuse_in = 0;  // calls until one is refused; 0: none
  [[nodiscard]] cl_device_id device_id() { return reinterpret_cast<cl_device_id>(&device); }
};

/// The driver in use: OpenCL's functions have no argument for it.
inline Driver*& Current() {
  static Driver* current = nullptr;
  return current;
}

inline bool Refuses() { return Current()->refuse_in > 0 && --Current()->refuse_in == 0; }
template <typename Handle>
Handle No(cl_int* error, cl_int why) {
  *error = why;
  return nullptr;
}
template <typename Handle, typename T>
Handle Yes(cl_int* error, std::shared_ptr<T> made) {
  *error = CL_SUCCESS;
  return Give<Handle>(std::move(made));
}

inline void End(const std::shared_ptr<Event>& event, cl_int status);

inline void RunIfReady(const std::shared_ptr<Event>& event) {
  if (event->ended() || event->waits > 0) return;
  if (event->failed == CL_SUCCESS && event->run) event->run();
  End(event, event->failed == CL_SUCCESS ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
}
inline void End(const std::shared_ptr<Event>& event, cl_int status) {
  event->run = nullptr;
  event->status = status;
  ++event->refs;  // a callback may query the event after its release
  for (const auto& [call, data] : std::exchange(event->callbacks, {}))
    call(reinterpret_cast<cl_event>(event.get()), status, data);
  --event->refs;
  for (const auto& next : std::exchange(event->next, {})) {
    if (status < 0) next->failed = status;
    --next->waits;
    RunIfReady(next);
  }
}
inline void Await(const std::shared_ptr<Event>& event, const std::shared_ptr<Event>& first) {
  if (!first->ended()) {
    first->next.push_back(event);
    ++event->waits;
  } else if (first->status < 0) {
    event->failed = first->status;
  }
}
inline cl_int Enqueue(cl_command_queue handle, cl_uint count, const cl_event* waits, cl_event* made,
                      std::function<void()> run, bool barrier = false) {
  auto& queue = Of<Queue>(handle);
  if ((count == 0) != (waits == nullptr)) Die("a wait list and its length contradict each other");
  auto event = std::make_shared<Event>();
  for (cl_uint i = 0; i < count; ++i) Await(event, Share<Event>(waits[i]));
  if (Refuses()) {
    for (cl_uint i = 0; i < count; ++i) std::erase(Of<Event>(waits[i]).next, event);
    return CL_OUT_OF_RESOURCES;
  }
  std::erase_if(queue.pending, [](const auto& earlier) { return earlier->ended(); });
  if (queue.in_order ? !queue.pending.empty() : barrier && count == 0)
    for (const auto& earlier : queue.pending) Await(event, earlier);
  if (!queue.in_order && queue.barrier != nullptr) Await(event, queue.barrier);
  if (barrier) queue.barrier = event;
  event->run = std::move(run);
  event->timed = queue.timed;
  queue.pending.push_back(event);
  if (made != nullptr)
    *made = Give<cl_event>(event);
  else
    event->refs = 0;
  RunIfReady(event);
  return CL_SUCCESS;
}

}  // namespace weir::testing::strict_cl
