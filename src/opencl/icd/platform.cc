// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/platform.h"

#include <array>
#include <cstring>

#include "opencl/icd/device.h"
#include "opencl/icd/facts.h"
#include "opencl/icd/info.h"
#include "opencl/icd/link.h"
#include "platform/clock.h"

namespace weir::opencl::icd {

Platform& ThePlatform() {
  static auto* platform = new Platform;
  return *platform;
}

namespace api {

cl_int GetPlatformIDs(cl_uint count, cl_platform_id* platforms, cl_uint* count_ret) {
  if ((count == 0 && platforms != nullptr) || (platforms == nullptr && count_ret == nullptr)) return CL_INVALID_VALUE;
  if (Link::Current() == nullptr) {
    if (count_ret != nullptr) *count_ret = 0;
    return CL_PLATFORM_NOT_FOUND_KHR;
  }
  if (count_ret != nullptr) *count_ret = 1;
  if (platforms != nullptr) platforms[0] = PlatformHandle();
  return CL_SUCCESS;
}

cl_int GetPlatformInfo(cl_platform_id handle, cl_platform_info name, std::size_t size, void* value,
                       std::size_t* size_ret) {
  if (handle != nullptr && As<Platform>(handle) == nullptr) return CL_INVALID_PLATFORM;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_PLATFORM_PROFILE: return answer.Text("FULL_PROFILE");
    case CL_PLATFORM_VERSION: return answer.Text("OpenCL 3.0 Weir " WEIR_VERSION);
    case CL_PLATFORM_NAME: return answer.Text(kPlatformName);
    case CL_PLATFORM_VENDOR: return answer.Text(kPlatformName);
    case CL_PLATFORM_EXTENSIONS: return answer.Text("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR: return answer.Text("WEIR");
    case CL_PLATFORM_HOST_TIMER_RESOLUTION: return answer.Value(cl_ulong{1});
    case CL_PLATFORM_NUMERIC_VERSION: return answer.Value(cl_version{CL_MAKE_VERSION(3, 0, 0)});
    case CL_PLATFORM_EXTENSIONS_WITH_VERSION: {
      cl_name_version icd{};
      icd.version = CL_MAKE_VERSION(1, 0, 0);
      std::strcpy(icd.name, "cl_khr_icd");
      return answer.Value(icd);
    }
    default: return CL_INVALID_VALUE;
  }
}

cl_int UnloadCompiler() { return CL_SUCCESS; }
cl_int UnloadPlatformCompiler(cl_platform_id platform) {
  return As<Platform>(platform) != nullptr ? CL_SUCCESS : CL_INVALID_PLATFORM;
}

cl_int GetHostTimer(cl_device_id device, cl_ulong* host) {
  if (As<Device>(device) == nullptr) return CL_INVALID_DEVICE;
  if (host == nullptr) return CL_INVALID_VALUE;
  *host = static_cast<cl_ulong>(platform::NowNs());
  return CL_SUCCESS;
}

cl_int GetDeviceAndHostTimer(cl_device_id handle, cl_ulong* device, cl_ulong* host) {
  if (device == nullptr) return CL_INVALID_VALUE;
  const cl_int error = GetHostTimer(handle, host);
  // The executor reports all times in this clock.
  if (error == CL_SUCCESS) *device = *host;
  return error;
}

}  // namespace api
}  // namespace weir::opencl::icd
