// SPDX-License-Identifier: Apache-2.0
// The names that a loader looks for.
#include "emulator/opencl/exports.h"

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

WEIR_EXPORT void* clGetExtensionFunctionAddress(const char* name) {
  return weir::emulator::cl::ExtensionFunction(name);
}

WEIR_EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t room, void* value,
                                     size_t* size) {
  return weir::emulator::cl::PlatformInfo(platform, name, room, value, size);
}

WEIR_EXPORT cl_int clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id* platforms, cl_uint* count) {
  return weir::emulator::cl::PlatformIds(room, platforms, count);
}
