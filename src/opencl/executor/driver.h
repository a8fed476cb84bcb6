// SPDX-License-Identifier: Apache-2.0
// Opens a vendor's OpenCL library directly, because the loader could open Weir's own client library.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "opencl/channel/cl.h"
#include "proto/opencl_messages.h"

namespace weir::opencl {

/// A vendor's device. `cl` is the vendor's function table.
struct NativeDevice {
  const cl_icd_dispatch* cl = nullptr;
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  std::string library;
  std::string name;
  std::string uuid{};  // as GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx without "GPU-", lower case; empty: not known
  std::string pci{};   // as 0000:01:00.0; empty: not known
  std::vector<pid_t> workers;  // threads that its driver has started so far
  /// The device computes in host memory, so that a buffer can be a memory range shared with the client.
  bool in_host_memory = false;
  /// Its driver calls an event's callback long after the event's end.
  bool calls_back_late = false;
};

/// The libraries named by the system's vendor files, except Weir's own. `folder`: /etc/OpenCL/vendors.
std::vector<std::string> VendorLibraries(const std::string& folder);

/// Opens a library and lists its devices. kUnavailable: it cannot be opened, or is not an OpenCL driver.
Result<std::vector<NativeDevice>> OpenLibrary(const std::string& library);

/// The index of the device with this number, UUID (with or without "GPU-") or PCI address; empty: the first. kNotFound:
/// there is no such device.
Result<std::size_t> ChooseDevice(std::span<const NativeDevice> devices, std::string_view wanted);

/// The results of clGetPlatformInfo and clGetDeviceInfo without handles. Memory sizes are limited to `memory_bytes`.
proto::cl::PlatformFacts FactsOfPlatform(const NativeDevice& device);
proto::cl::DeviceFacts FactsOfDevice(const cl_icd_dispatch& cl, cl_device_id device, std::uint32_t id,
                                     bool shares_arena, std::uint64_t memory_bytes);

std::uint64_t DeviceNumber(const cl_icd_dispatch& cl, cl_device_id device, cl_device_info name);
std::string DeviceText(const cl_icd_dispatch& cl, cl_device_id device, cl_device_info name);

}  // namespace weir::opencl
