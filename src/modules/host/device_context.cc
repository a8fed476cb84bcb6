// SPDX-License-Identifier: Apache-2.0
#include "modules/host/device_context.h"

#include <array>

namespace weir::modules {
namespace {

Error ClError(const std::string& attempted, cl_int error) {
  return Fail(Errc::kUnavailable, attempted + ": OpenCL error " + std::to_string(error));
}

Result<std::vector<cl_device_id>> AllDevices() {
  cl_uint count = 0;
  const cl_int error = ::clGetPlatformIDs(0, nullptr, &count);
  if (error != CL_SUCCESS || count == 0)
    return Fail(Errc::kUnavailable, "OpenCL is not available (error " + std::to_string(error) +
                                        "): check that the vGPU and the driver exist");
  std::vector<cl_platform_id> platforms(count);
  ::clGetPlatformIDs(count, platforms.data(), nullptr);
  std::vector<cl_device_id> devices;
  for (const cl_platform_id platform : platforms) {
    cl_uint there = 0;
    if (::clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &there) != CL_SUCCESS || there == 0) continue;
    const std::size_t before = devices.size();
    devices.resize(before + there);
    ::clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, there, devices.data() + before, nullptr);
  }
  if (devices.empty()) return Fail(Errc::kUnavailable, "OpenCL has no device: check that the vGPU exists");
  return devices;
}

/// The parts of all devices, of `units` compute units each.
Result<std::vector<cl_device_id>> Parts(const std::vector<cl_device_id>& devices, std::uint32_t units) {
  std::vector<cl_device_id> parts;
  for (const cl_device_id device : devices) {
    const std::array<cl_device_partition_property, 3> how{CL_DEVICE_PARTITION_EQUALLY,
                                                          static_cast<cl_device_partition_property>(units), 0};
    cl_uint count = 0;
    if (const cl_int error = ::clCreateSubDevices(device, how.data(), 0, nullptr, &count); error != CL_SUCCESS)
      return ClError("cutting a device into parts of " + std::to_string(units) + " compute units", error);
    const std::size_t before = parts.size();
    parts.resize(before + count);
    if (const cl_int error = ::clCreateSubDevices(device, how.data(), count, parts.data() + before, nullptr);
        error != CL_SUCCESS)
      return ClError("cutting a device into parts", error);
  }
  return parts;
}

std::uint64_t NumberOf(cl_device_id device, cl_device_info what) {
  std::uint64_t value = 0;  // a narrower value fills the low bytes
  return ::clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : 0;
}

std::string NameOfDevice(cl_device_id device) {
  std::array<char, 256> name{};
  ::clGetDeviceInfo(device, CL_DEVICE_NAME, name.size() - 1, name.data(), nullptr);
  return name.data();
}

}  // namespace

Result<DeviceContext> DeviceContext::Open(std::uint32_t index, std::uint32_t units) {
  WEIR_TRY(std::vector<cl_device_id> devices, AllDevices());
  if (units > 0) {
    WEIR_TRY(devices, Parts(devices, units));
  }
  if (index >= devices.size())
    return Fail(Errc::kNotFound,
                "there is no device " + std::to_string(index) + ": there are " + std::to_string(devices.size()));
  DeviceContext opened;
  opened.device_ = devices[index];
  cl_int error = CL_SUCCESS;
  opened.context_ = ::clCreateContext(nullptr, 1, &opened.device_, nullptr, nullptr, &error);
  if (error != CL_SUCCESS) return ClError("making a context on device " + std::to_string(index), error);
  opened.facts_ = {.index = index,
                   .count = static_cast<std::uint32_t>(devices.size()),
                   .units = static_cast<std::uint32_t>(NumberOf(opened.device_, CL_DEVICE_MAX_COMPUTE_UNITS)),
                   .memory_bytes = NumberOf(opened.device_, CL_DEVICE_GLOBAL_MEM_SIZE),
                   .local_memory_bytes = NumberOf(opened.device_, CL_DEVICE_LOCAL_MEM_SIZE),
                   .name = NameOfDevice(opened.device_)};
  return opened;
}

Result<cl_command_queue> DeviceContext::MakeQueue(bool timed) const {
  cl_int error = CL_SUCCESS;
  const cl_command_queue_properties properties = timed ? CL_QUEUE_PROFILING_ENABLE : 0;
  const cl_command_queue queue = ::clCreateCommandQueue(context_, device_, properties, &error);
  if (error != CL_SUCCESS) return ClError("making a queue", error);
  return queue;
}

Status DeviceContext::Probe() const {
  WEIR_TRY(const cl_command_queue queue, MakeQueue());
  cl_int error = CL_SUCCESS;
  const cl_mem buffer = ::clCreateBuffer(context_, CL_MEM_READ_WRITE, 4, nullptr, &error);
  const std::uint32_t value = 0;
  if (error == CL_SUCCESS)
    error = ::clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof value, &value, 0, nullptr, nullptr);
  if (buffer != nullptr) ::clReleaseMemObject(buffer);
  ::clReleaseCommandQueue(queue);
  // A device that is out of memory is not lost.
  if (error == CL_SUCCESS || error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES ||
      error == CL_OUT_OF_HOST_MEMORY)
    return Ok();
  return ClError("testing whether the device works", error);
}

}  // namespace weir::modules
