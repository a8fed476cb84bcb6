// SPDX-License-Identifier: Apache-2.0
// What programs hold: events are ours, queues are PoCL's with a state of ours beside them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/opencl/cl.h"
#include "emulator/opencl/timeline.h"

namespace weir::emulator::cl {

struct Queue {
  cl_command_queue native = nullptr;
  std::uint32_t device = 0;  // the emulator's number
  Timeline::QueueId id = 0;
  bool in_order = true, profiling = false;
  std::atomic<unsigned> refs{1};  // the program's
  /// Held while a command is given to PoCL and to the timeline, so that both have the same order.
  std::mutex order;
};

/// What a program holds as cl_event.
struct Event {
  static constexpr std::uint64_t kMagic = 0x5745'4952'4556'4E54;

  const cl_icd_dispatch* dispatch = nullptr;  // first, as the loader wants it
  std::uint64_t magic = kMagic;
  std::atomic<cl_uint> refs{1};
  cl_event native = nullptr;     // PoCL's, until this one is destroyed
  std::shared_ptr<Queue> queue;  // null: a user event
  cl_command_type type = 0;
  CommandId id = 0;

  // Of the driver's lock.
  struct Callback {
    cl_int at = CL_COMPLETE;
    void(CL_CALLBACK* call)(cl_event, cl_int, void*) = nullptr;
    void* data = nullptr;
  };
  bool complete = false;
  bool status_set = false;  // of a user event
  int status = CL_COMPLETE;
  bool lost = false;  // it failed because of the device
  Times times;
  std::vector<Callback> callbacks;
  std::function<void()> when_complete;
};

inline cl_event HandleOf(Event* event) { return reinterpret_cast<cl_event>(event); }
/// Null: it is no event of ours.
Event* EventOf(cl_event handle);

}  // namespace weir::emulator::cl
