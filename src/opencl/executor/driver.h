// SPDX-License-Identifier: Apache-2.0
// A vendor's OpenCL, opened directly: going through the loader could bring us our own client library.
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

/// A device of a vendor. `cl` is the vendor's table of functions.
struct NativeDevice {
  const cl_icd_dispatch* cl = nullptr;
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  std::string library;
  std::string name;
  std::string uuid{};  // as GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx without "GPU-", lower case; empty: not known
  std::string pci{};   // as 0000:01:00.0; empty: not known
  std::vector<pid_t> workers;  // threads that its driver has started by now
  /// It computes in host memory, so that a buffer can be a range that the client sees too.
  bool in_host_memory = false;
};

/// The libraries that the system's vendor files name, less our own. `folder`: /etc/OpenCL/vendors.
std::vector<std::string> VendorLibraries(const std::string& folder);

/// Opens a library and lists its devices. kUnavailable: it can't be opened, or is no OpenCL driver.
Result<std::vector<NativeDevice>> OpenLibrary(const std::string& library);

/// The index of the device with this number, UUID (with or without "GPU-") or PCI address; empty: the first. kNotFound:
/// there is none.
Result<std::size_t> ChooseDevice(std::span<const NativeDevice> devices, std::string_view wanted);

/// What clGetPlatformInfo and clGetDeviceInfo say, but for handles; of memory not more than `memory_bytes`.
proto::cl::PlatformFacts FactsOfPlatform(const NativeDevice& device);
proto::cl::DeviceFacts FactsOfDevice(const cl_icd_dispatch& cl, cl_device_id device, std::uint32_t id,
                                     bool shares_arena, std::uint64_t memory_bytes);

std::uint64_t DeviceNumber(const cl_icd_dispatch& cl, cl_device_id device, cl_device_info name);
std::string DeviceText(const cl_icd_dispatch& cl, cl_device_id device, cl_device_info name);

}  // namespace weir::opencl
