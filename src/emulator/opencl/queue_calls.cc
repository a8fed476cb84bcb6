// SPDX-License-Identifier: Apache-2.0
// Command queues.
#include "emulator/opencl/driver.h"

namespace weir::emulator::cl {
namespace {

cl_command_queue Noted(cl_command_queue native, cl_device_id device) {
  if (native == nullptr) return nullptr;
  const Driver::Device* found = Driver::The().Find(device);
  cl_command_queue_properties properties = 0;
  if (found == nullptr ||
      Pocl().clGetCommandQueueInfo(native, CL_QUEUE_PROPERTIES, sizeof properties, &properties, nullptr) != CL_SUCCESS)
    return native;
  Driver::The().AddQueue(native, *found, properties);
  return native;
}

cl_command_queue CL_API_CALL CreateCommandQueue(cl_context context, cl_device_id device,
                                                cl_command_queue_properties properties, cl_int* error) {
  cl_command_queue queue = nullptr;
  Guarded([&] {
    queue = Noted(Pocl().clCreateCommandQueue(context, device, properties, error), device);
    return CL_SUCCESS;
  });
  return queue;
}

cl_command_queue CL_API_CALL CreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                              const cl_queue_properties* properties, cl_int* error) {
  cl_command_queue queue = nullptr;
  Guarded([&] {
    queue = Noted(Pocl().clCreateCommandQueueWithProperties(context, device, properties, error), device);
    return CL_SUCCESS;
  });
  return queue;
}

cl_int CL_API_CALL RetainCommandQueue(cl_command_queue native) {
  return Guarded([&] {
    if (const auto queue = Driver::The().FindQueue(native)) ++queue->refs;
    return Pocl().clRetainCommandQueue(native);
  });
}

cl_int CL_API_CALL ReleaseCommandQueue(cl_command_queue native) {
  return Guarded([&] {
    if (const auto queue = Driver::The().FindQueue(native); queue != nullptr && --queue->refs == 0) {
      Pocl().clFlush(native);
      Driver::The().RemoveQueue(*queue);
    }
    return Pocl().clReleaseCommandQueue(native);
  });
}

cl_int CL_API_CALL Finish(cl_command_queue native) {
  return Guarded([&]() -> cl_int {
    const auto queue = Driver::The().FindQueue(native);
    if (queue == nullptr) return CL_INVALID_COMMAND_QUEUE;
    Pocl().clFlush(native);
    return Driver::The().Finish(*queue);
  });
}

}  // namespace

void AddQueueCalls(cl_icd_dispatch& table) {
  table.clCreateCommandQueue = CreateCommandQueue;
  table.clCreateCommandQueueWithProperties = CreateCommandQueueWithProperties;
  table.clRetainCommandQueue = RetainCommandQueue;
  table.clReleaseCommandQueue = ReleaseCommandQueue;
  table.clFinish = Finish;
}

}  // namespace weir::emulator::cl
