// SPDX-License-Identifier: Apache-2.0
// Launches of kernels.
#include <array>
#include <string>

#include "emulator/opencl/driver.h"

namespace weir::emulator::cl {
namespace {

std::string NameOf(cl_kernel kernel) {
  std::array<char, 256> name{};
  std::size_t size = 0;
  if (Pocl().clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, name.size(), name.data(), &size) != CL_SUCCESS) return {};
  return name.data();
}

/// Enqueues a command in place of a kernel that is not computed. It is complete when its wait list is.
cl_int Nothing(cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
  cl_command_queue_properties properties = 0;
  Pocl().clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, nullptr);
  // In an out-of-order queue, a marker without a wait list would wait for all earlier commands.
  if (count > 0 || (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0)
    return Pocl().clEnqueueMarkerWithWaitList(queue, count, waits, event);
  cl_context context = nullptr;
  cl_int error = Pocl().clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, nullptr);
  if (error == CL_SUCCESS) *event = Pocl().clCreateUserEvent(context, &error);
  return error == CL_SUCCESS ? Pocl().clSetUserEventStatus(*event, CL_COMPLETE) : error;
}

cl_int CL_API_CALL NdRange(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const std::size_t* offset,
                           const std::size_t* global, const std::size_t* local, cl_uint count, const cl_event* events,
                           cl_event* out) {
  return Guarded([&] {
    std::uint64_t items = 1;
    for (cl_uint i = 0; global != nullptr && i < dimensions && i < 3; ++i) items *= global[i];
    const KernelWork cost = Driver::The().CostOf(NameOf(kernel), items);
    return Driver::The().Enqueue(queue, {.type = CL_COMMAND_NDRANGE_KERNEL, .work = cost.work}, count, events, out,
                                 [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   if (!cost.computed) return Nothing(queue, n, waits, event);
                                   return Pocl().clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global,
                                                                        local, n, waits, event);
                                 });
  });
}

cl_int CL_API_CALL Task(cl_command_queue queue, cl_kernel kernel, cl_uint count, const cl_event* events,
                        cl_event* out) {
  constexpr std::size_t kOne = 1;
  return NdRange(queue, kernel, 1, nullptr, &kOne, &kOne, count, events, out);
}

cl_int CL_API_CALL Native(cl_command_queue queue, void(CL_CALLBACK* function)(void*), void* arguments, std::size_t size,
                          cl_uint objects, const cl_mem* list, const void** places, cl_uint count,
                          const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_NATIVE_KERNEL, .work = Driver::The().CostOf("clEnqueueNativeKernel", 1).work}, count,
        events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueNativeKernel(queue, function, arguments, size, objects, list, places, n, waits, event);
        });
  });
}

}  // namespace

void AddKernelCommands(cl_icd_dispatch& table) {
  table.clEnqueueNDRangeKernel = NdRange;
  table.clEnqueueTask = Task;
  table.clEnqueueNativeKernel = Native;
}

}  // namespace weir::emulator::cl
