// SPDX-License-Identifier: Apache-2.0
// A driver that checks its caller, which must use it correctly whatever input it gets itself. The process ends if a
// handle was released or is of another kind, on a wait that nothing can end, and if objects remain at the end. Calls
// that the specification lets a driver refuse fail with the specified error. The driver touches each byte of the ranges
// that it gets, so that a sanitizer notices a range that is too long. Commands run when they are enqueued, except those
// that wait for a user event. Single-threaded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "opencl/channel/cl.h"
#include "tests/harness/strict_opencl_driver.h"
#include "tests/harness/strict_opencl_memory.h"
#include "tests/harness/strict_opencl_objects.h"
#include "tests/harness/strict_opencl_programs.h"

namespace weir::testing {
namespace strict_cl {

inline void AddObjectCalls(cl_icd_dispatch& table) {
  table.clCreateContext = [](const cl_context_properties*, cl_uint count, const cl_device_id* devices,
                             void(CL_CALLBACK*)(const char*, const void*, std::size_t, void*), void*,
                             cl_int* error) -> cl_context {
    for (cl_uint i = 0; i < count; ++i) Of<Device>(devices[i]);
    if (count == 0) return No<cl_context>(error, CL_INVALID_VALUE);
    if (Refuses()) return No<cl_context>(error, CL_OUT_OF_HOST_MEMORY);
    return Yes<cl_context>(error, std::make_shared<Context>());
  };
  table.clReleaseContext = Release<Context, cl_context>;
  table.clCreateCommandQueue = [](cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                  cl_int* error) -> cl_command_queue {
    Of<Device>(device);
    auto queue = std::make_shared<Queue>();
    queue->context = Share<Context>(context);
    queue->in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
    queue->timed = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    if (Refuses()) return No<cl_command_queue>(error, CL_OUT_OF_HOST_MEMORY);
    return Yes<cl_command_queue>(error, std::move(queue));
  };
  table.clReleaseCommandQueue = Release<Queue, cl_command_queue>;
  table.clCreateSampler = [](cl_context context, cl_bool, cl_addressing_mode, cl_filter_mode filter,
                             cl_int* error) -> cl_sampler {
    Of<Context>(context);
    if (filter > 1 || Refuses()) return No<cl_sampler>(error, CL_INVALID_VALUE);
    return Yes<cl_sampler>(error, std::make_shared<Sampler>());
  };
  table.clReleaseSampler = Release<Sampler, cl_sampler>;
  table.clCreateSubDevices = [](cl_device_id device, const cl_device_partition_property* properties, cl_uint room,
                                cl_device_id* devices, cl_uint* count) -> cl_int {
    Of<Device>(device);
    const bool counts = *properties == CL_DEVICE_PARTITION_BY_COUNTS;
    while (*properties != 0) ++properties;
    if (counts && properties[1] != 0)
      Die("a list of counts without the zero after CL_DEVICE_PARTITION_BY_COUNTS_LIST_END");
    if (room < 1) return CL_INVALID_VALUE;
    devices[0] = reinterpret_cast<cl_device_id>(&Current()->part);
    *count = 1;
    return CL_SUCCESS;
  };
}

inline void AddEventCalls(cl_icd_dispatch& table) {
  table.clCreateUserEvent = [](cl_context context, cl_int* error) -> cl_event {
    Of<Context>(context);
    if (Refuses()) return No<cl_event>(error, CL_OUT_OF_HOST_MEMORY);
    auto event = std::make_shared<Event>();
    event->user = true;
    event->status = CL_SUBMITTED;
    return Yes<cl_event>(error, std::move(event));
  };
  table.clSetUserEventStatus = [](cl_event handle, cl_int status) -> cl_int {
    const auto event = Share<Event>(handle);
    if (!event->user) return CL_INVALID_EVENT;
    if (event->ended()) return CL_INVALID_OPERATION;
    End(event, status);
    return CL_SUCCESS;
  };
  table.clRetainEvent = Retain<Event, cl_event>;
  table.clReleaseEvent = Release<Event, cl_event>;
  table.clSetEventCallback = [](cl_event handle, cl_int, Event::Callback call, void* data) -> cl_int {
    const auto event = Share<Event>(handle);
    if (event->ended())
      call(handle, event->status, data);
    else
      event->callbacks.emplace_back(call, data);
    return CL_SUCCESS;
  };
  table.clWaitForEvents = [](cl_uint count, const cl_event* events) -> cl_int {
    cl_int status = CL_SUCCESS;
    for (cl_uint i = 0; i < count; ++i) {
      const Event& event = Of<Event>(events[i]);
      if (!event.ended()) Die("a wait for an event that cannot be set any more");
      if (event.status < 0) status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    return status;
  };
}

inline void AddCommandCalls(cl_icd_dispatch& table) {
  table.clEnqueueNDRangeKernel = [](cl_command_queue queue, cl_kernel handle, cl_uint dimensions, const std::size_t*,
                                    const std::size_t* global, const std::size_t* local, cl_uint count,
                                    const cl_event* waits, cl_event* event) {
    const auto& kernel = Of<Kernel>(handle);
    if (!std::ranges::all_of(kernel.set, std::identity{})) return CL_INVALID_KERNEL_ARGS;
    if (dimensions < 1 || dimensions > 3) return CL_INVALID_WORK_DIMENSION;
    for (cl_uint i = 0; i < dimensions; ++i) {
      if (global[i] == 0) return CL_INVALID_GLOBAL_WORK_SIZE;
      if (local != nullptr && (local[i] == 0 || global[i] % local[i] != 0)) return CL_INVALID_WORK_GROUP_SIZE;
    }
    auto buffer = kernel.buffer != nullptr ? Share<Memory>(kernel.buffer) : nullptr;
    auto image = Share<Memory>(kernel.image);
    Of<Sampler>(kernel.sampler);
    return Enqueue(queue, count, waits, event, [buffer, image] {
      if (buffer) ++reinterpret_cast<unsigned char&>(buffer->bytes[buffer->size - 1]);
      Touch(image->bytes, image->size);
    });
  };
  table.clEnqueueMigrateMemObjects = [](cl_command_queue queue, cl_uint objects, const cl_mem* memories,
                                        cl_mem_migration_flags, cl_uint count, const cl_event* waits, cl_event* event) {
    for (cl_uint i = 0; i < objects; ++i) Of<Memory>(memories[i]);
    return objects == 0 ? CL_INVALID_VALUE : Enqueue(queue, count, waits, event, [] {});
  };
  table.clEnqueueMarkerWithWaitList = [](cl_command_queue queue, cl_uint count, const cl_event* waits,
                                         cl_event* event) {
    return Enqueue(
        queue, count, waits, event, [] {}, count == 0);
  };
  table.clEnqueueBarrierWithWaitList = [](cl_command_queue queue, cl_uint count, const cl_event* waits,
                                          cl_event* event) {
    return Enqueue(
        queue, count, waits, event, [] {}, true);
  };
  table.clFlush = [](cl_command_queue queue) -> cl_int {
    Of<Queue>(queue);
    return CL_SUCCESS;
  };
  table.clFinish = [](cl_command_queue queue) -> cl_int {
    if (!Of<Queue>(queue).idle()) Die("clFinish would never return: it waits for an event that is never set");
    return CL_SUCCESS;
  };
}

}  // namespace strict_cl

class StrictOpenCl {
 public:
  StrictOpenCl() {
    strict_cl::Current() = &driver_;
    strict_cl::AddObjectCalls(driver_.table);
    strict_cl::AddEventCalls(driver_.table);
    strict_cl::AddProgramCalls(driver_.table);
    strict_cl::AddKernelCalls(driver_.table);
    strict_cl::AddProgramInfo(driver_.table);
    strict_cl::AddObjectInfo(driver_.table);
    strict_cl::AddBufferCalls(driver_.table);
    strict_cl::AddBufferCommands(driver_.table);
    strict_cl::AddBoxCommands(driver_.table);
    strict_cl::AddImageCalls(driver_.table);
    strict_cl::AddImageCommands(driver_.table);
    strict_cl::AddImageCopies(driver_.table);
    strict_cl::AddCommandCalls(driver_.table);
  }
  StrictOpenCl(const StrictOpenCl&) = delete;
  StrictOpenCl& operator=(const StrictOpenCl&) = delete;

  [[nodiscard]] const cl_icd_dispatch& table() const { return driver_.table; }
  [[nodiscard]] cl_device_id device() { return driver_.device_id(); }
  /// Makes the `nth` call that can fail from now on fail; 0: none.
  void RefuseAt(unsigned nth) { driver_.refuse_in = nth; }
  /// Ends the process if an object remains.
  static void ExpectNothingLeft() {
    if (strict_cl::Thing::alive != 0) strict_cl::Die("objects were left behind");
  }

 private:
  strict_cl::Driver driver_;
};

}  // namespace weir::testing
