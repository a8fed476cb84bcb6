// SPDX-License-Identifier: Apache-2.0
#include "modules/host/launch_meter.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <map>

namespace weir::modules {
namespace {

/// The facts about this process's OpenCL objects that the meter needs.
struct LaunchBook {
  std::mutex mutex;
  std::atomic<int> watched = 0;  // number of watched queues; while it is zero, arguments are not recorded
  std::map<cl_command_queue, std::shared_ptr<LaunchMeter>> meters;
  std::map<cl_mem, std::uint64_t> buffers;
  std::map<std::pair<cl_kernel, cl_uint>, std::uint64_t> arguments;  // buffer arguments only
};

LaunchBook& TheBook() {
  static LaunchBook& book = *new LaunchBook;  // never destroyed: modules' threads may outlive statics
  return book;
}

/// The loader's function behind the interposed one.
template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

std::shared_ptr<LaunchMeter> MeterOf(cl_command_queue queue) {
  LaunchBook& book = TheBook();
  if (book.watched == 0) return nullptr;
  const std::scoped_lock lock(book.mutex);
  const auto found = book.meters.find(queue);
  return found == book.meters.end() ? nullptr : found->second;
}

std::uint64_t ArgumentBytesOf(cl_kernel kernel) {
  LaunchBook& book = TheBook();
  const std::scoped_lock lock(book.mutex);
  std::uint64_t bytes = 0;
  for (auto at = book.arguments.lower_bound({kernel, 0}); at != book.arguments.end() && at->first.first == kernel; ++at)
    bytes += at->second;
  return bytes;
}

template <typename Value>
Value OfKernel(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what) {
  Value value{};
  return ::clGetKernelWorkGroupInfo(kernel, device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value
                                                                                                       : Value{};
}

/// False: the driver does not report times.
bool TimeOnDevice(cl_event event, Duration& span) {
  cl_ulong start = 0, end = 0;
  if (::clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr) != CL_SUCCESS ||
      ::clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) != CL_SUCCESS ||
      end < start)
    return false;
  span = Duration{static_cast<std::int64_t>(end - start)};
  return true;
}

}  // namespace

std::shared_ptr<LaunchMeter> LaunchMeter::Watch(cl_command_queue queue, cl_device_id device,
                                                const core::Loads& capacity) {
  std::shared_ptr<LaunchMeter> meter(new LaunchMeter(queue, device, capacity));
  LaunchBook& book = TheBook();
  const std::scoped_lock lock(book.mutex);
  book.meters[queue] = meter;
  ++book.watched;
  return meter;
}

LaunchMeter::~LaunchMeter() {
  for (const PendingLaunch& one : pending_) ::clReleaseEvent(one.event);
}

void LaunchMeter::Saw(cl_event event, cl_kernel kernel, cl_uint dimensions, const std::size_t* global,
                      const std::size_t* local) {
  Launch launch{.groups = 1, .group_items = 1};
  std::uint64_t items = 1;
  for (cl_uint i = 0; i < dimensions; ++i) {
    items *= global[i];
    if (local == nullptr || local[i] == 0) continue;
    launch.group_items *= local[i];
    launch.groups *= (global[i] + local[i] - 1) / local[i];
  }
  if (local == nullptr) {
    // The driver chooses the group size without telling; the largest group that this kernel allows is assumed.
    const auto largest = OfKernel<std::size_t>(kernel, device_, CL_KERNEL_WORK_GROUP_SIZE);
    launch.group_items = std::clamp<std::uint64_t>(largest, 1, std::max<std::uint64_t>(items, 1));
    launch.groups = (items + launch.group_items - 1) / launch.group_items;
  }
  launch.local_bytes = OfKernel<cl_ulong>(kernel, device_, CL_KERNEL_LOCAL_MEM_SIZE);
  launch.argument_bytes = ArgumentBytesOf(kernel);
  const std::scoped_lock lock(mutex_);
  if (pending_.size() >= fold_at_) {
    Fold();
    fold_at_ = std::max<std::size_t>(1'024, 2 * pending_.size());
  }
  if (pending_.size() >= kPendingMax) {
    whole_ = false;
    ::clReleaseEvent(event);
    return;
  }
  pending_.push_back({event, launch});
}

void LaunchMeter::Fold() {
  std::erase_if(pending_, [this](PendingLaunch& one) {
    cl_int status = CL_QUEUED;
    if (::clGetEventInfo(one.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr) == CL_SUCCESS &&
        status > CL_COMPLETE)
      return false;
    if (status == CL_COMPLETE && TimeOnDevice(one.event, one.launch.on_device))
      loads_.Add(one.launch);
    else
      whole_ = false;
    ::clReleaseEvent(one.event);
    return true;
  });
}

std::optional<MeasuredLoads> LaunchMeter::Take(Duration run) {
  LaunchBook& book = TheBook();
  {
    const std::scoped_lock lock(book.mutex);
    if (book.meters.erase(queue_) > 0 && --book.watched == 0) book.arguments.clear();
  }
  const std::scoped_lock lock(mutex_);
  Fold();
  const MeasuredLoads measured = loads_.Over(run);
  if (!whole_ || !pending_.empty() || measured.launches == 0) return std::nullopt;
  return measured;
}

}  // namespace weir::modules

// Modules bind to these functions instead of the loader's, because the program's own symbols are searched first.
#define WEIR_BEFORE_LOADER extern "C" __attribute__((visibility("default"))) CL_API_ENTRY

WEIR_BEFORE_LOADER cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                             cl_uint dimensions, const size_t* offset,
                                                             const size_t* global, const size_t* local, cl_uint waits,
                                                             const cl_event* wait_list, cl_event* event) {
  static const auto next = weir::modules::Next<decltype(&clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel");
  const auto meter = weir::modules::MeterOf(queue);
  if (!meter) return next(queue, kernel, dimensions, offset, global, local, waits, wait_list, event);
  cl_event seen = nullptr;
  const cl_int error =
      next(queue, kernel, dimensions, offset, global, local, waits, wait_list, event != nullptr ? event : &seen);
  if (error != CL_SUCCESS) return error;
  if (event != nullptr) {
    seen = *event;
    ::clRetainEvent(seen);
  }
  meter->Saw(seen, kernel, dimensions, global, local);
  return error;
}

WEIR_BEFORE_LOADER cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void* value) {
  static const auto next = weir::modules::Next<decltype(&clSetKernelArg)>("clSetKernelArg");
  const cl_int error = next(kernel, index, size, value);
  weir::modules::LaunchBook& book = weir::modules::TheBook();
  if (error != CL_SUCCESS || book.watched == 0) return error;
  const std::scoped_lock lock(book.mutex);
  book.arguments.erase({kernel, index});
  if (size != sizeof(cl_mem) || value == nullptr) return error;
  // An argument of the same size that equals a buffer's handle by chance is very unlikely.
  const auto buffer = book.buffers.find(*static_cast<const cl_mem*>(value));
  if (buffer != book.buffers.end()) book.arguments[{kernel, index}] = buffer->second;
  return error;
}

WEIR_BEFORE_LOADER cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void* host,
                                                     cl_int* error) {
  static const auto next = weir::modules::Next<decltype(&clCreateBuffer)>("clCreateBuffer");
  const cl_mem buffer = next(context, flags, size, host, error);
  if (buffer == nullptr) return buffer;
  weir::modules::LaunchBook& book = weir::modules::TheBook();
  const std::scoped_lock lock(book.mutex);
  book.buffers[buffer] = size;
  return buffer;
}

WEIR_BEFORE_LOADER cl_int CL_API_CALL clReleaseMemObject(cl_mem object) {
  static const auto next = weir::modules::Next<decltype(&clReleaseMemObject)>("clReleaseMemObject");
  cl_uint references = 0;
  if (object != nullptr &&
      ::clGetMemObjectInfo(object, CL_MEM_REFERENCE_COUNT, sizeof references, &references, nullptr) == CL_SUCCESS &&
      references == 1) {
    weir::modules::LaunchBook& book = weir::modules::TheBook();
    const std::scoped_lock lock(book.mutex);
    book.buffers.erase(object);
  }
  return next(object);
}
