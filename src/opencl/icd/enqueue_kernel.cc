// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/enqueue.h"
#include "opencl/icd/kernel.h"

namespace weir::opencl::icd {
namespace {

/// The work-group size: given, required by the kernel, or left to the driver. Returns CL_SUCCESS or the error.
cl_int ReadLocal(const Kernel& kernel, const Device& device, const std::size_t* local, wire::NdRange& range) {
  const wire::WorkGroupFacts* groups = kernel.GroupsOn(device, true);
  const bool required = groups != nullptr && groups->compile_size[0] != 0;
  if (local == nullptr && !required) return CL_SUCCESS;
  range.has_local = 1;
  unsigned __int128 items = 1;
  for (unsigned i = 0; i < range.dimensions; ++i) {
    range.local[i] = local != nullptr ? local[i] : groups->compile_size[i];
    if (range.local[i] == 0) return CL_INVALID_WORK_GROUP_SIZE;
    if (required && range.local[i] != groups->compile_size[i]) return CL_INVALID_WORK_GROUP_SIZE;
    if (range.local[i] > device.work_item_sizes[i]) return CL_INVALID_WORK_ITEM_SIZE;
    if (range.global[i] % range.local[i] != 0 && !device.non_uniform_groups) return CL_INVALID_WORK_GROUP_SIZE;
    items *= range.local[i];
  }
  const std::uint64_t most = groups != nullptr && groups->size != 0 ? groups->size : device.work_group_size_max;
  return items <= most ? CL_SUCCESS : CL_INVALID_WORK_GROUP_SIZE;
}

cl_int EnqueueRange(cl_command_queue queue, cl_kernel handle, cl_uint dimensions, const std::size_t* offset,
                    const std::size_t* global, const std::size_t* local, cl_uint wait_count, const cl_event* wait_list,
                    cl_event* event, cl_command_type type) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Kernel* kernel = As<Kernel>(handle);
  if (kernel == nullptr) return CL_INVALID_KERNEL;
  const Device& device = *command.queue().device;
  if (kernel->program->context.get() != command.queue().context.get()) return CL_INVALID_CONTEXT;
  const DeviceBuild* build = kernel->program->BuildOf(device);
  if (build == nullptr || build->status != CL_BUILD_SUCCESS) return CL_INVALID_PROGRAM_EXECUTABLE;
  if (kernel->args_missing != 0) return CL_INVALID_KERNEL_ARGS;
  if (dimensions < 1 || dimensions > device.work_item_sizes.size()) return CL_INVALID_WORK_DIMENSION;

  wire::NdRange range{.kernel = kernel->id, .dimensions = static_cast<std::uint8_t>(dimensions)};
  bool nothing = global == nullptr;
  for (unsigned i = 0; i < dimensions && !nothing; ++i) {
    range.global[i] = global[i];
    range.offset[i] = offset != nullptr ? offset[i] : 0;
    if (range.global[i] > device.address_max) return CL_INVALID_GLOBAL_WORK_SIZE;
    if (range.offset[i] > device.address_max - range.global[i]) return CL_INVALID_GLOBAL_OFFSET;
    nothing = range.global[i] == 0;
  }
  if (nothing) {  // completes when its wait list is complete
    wire::Marker marker;
    return command.Send(marker, type);
  }
  if (const cl_int error = ReadLocal(*kernel, device, local, range); error != CL_SUCCESS) return error;
  if (const cl_int error = SendArgs(*kernel); error != CL_SUCCESS) return error;
  return command.Send(range, type);
}

}  // namespace

namespace api {

cl_int EnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const std::size_t* offset,
                            const std::size_t* global, const std::size_t* local, cl_uint wait_count,
                            const cl_event* wait_list, cl_event* event) {
  return EnqueueRange(queue, kernel, dimensions, offset, global, local, wait_count, wait_list, event,
                      CL_COMMAND_NDRANGE_KERNEL);
}

cl_int EnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint wait_count, const cl_event* wait_list,
                   cl_event* event) {
  const std::size_t one = 1;
  return EnqueueRange(queue, kernel, 1, nullptr, &one, &one, wait_count, wait_list, event, CL_COMMAND_TASK);
}

}  // namespace api
}  // namespace weir::opencl::icd
