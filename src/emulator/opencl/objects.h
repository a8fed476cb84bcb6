// SPDX-License-Identifier: Apache-2.0
// The driver's state of objects that programs hold. An event is an object of the driver. A queue is PoCL's object, with
// a Queue of the driver beside it.
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
  std::atomic<unsigned> refs{1};  // references of the program
  /// Held while a command is added to PoCL and to the timeline, so that both have the same order.
  std::mutex order;
};

/// The object that a program holds as cl_event.
struct Event {
  static constexpr std::uint64_t kMagic = 0x5745'4952'4556'4E54;

  const cl_icd_dispatch* dispatch = nullptr;  // the first member, as the ICD loader requires
  std::uint64_t magic = kMagic;
  std::atomic<cl_uint> refs{1};
  cl_event native = nullptr;     // PoCL's event, owned by this one
  std::shared_ptr<Queue> queue;  // null: a user event
  cl_command_type type = 0;
  CommandId id = 0;

  // Guarded by the driver's lock.
  struct Callback {
    cl_int at = CL_COMPLETE;
    void(CL_CALLBACK* call)(cl_event, cl_int, void*) = nullptr;
    void* data = nullptr;
  };
  bool complete = false;
  bool status_set = false;  // for a user event: the program has set its status
  int status = CL_COMPLETE;
  bool lost = false;  // the command failed because the device did
  Times times;
  std::vector<Callback> callbacks;
  std::function<void()> when_complete;
};

inline cl_event HandleOf(Event* event) { return reinterpret_cast<cl_event>(event); }
/// Null: the handle is not an event of this driver.
Event* EventOf(cl_event handle);

}  // namespace weir::emulator::cl
