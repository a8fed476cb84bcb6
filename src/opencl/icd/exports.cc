// SPDX-License-Identifier: Apache-2.0
// The exports of libweir-opencl.so: what loaders look for, and nothing that a program could link by mistake.
#include "opencl/icd/entry_points.h"

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

namespace icd = weir::opencl::icd;

// NOLINTBEGIN(readability-identifier-naming)
WEIR_EXPORT void* clGetExtensionFunctionAddress(const char* name) {
  return icd::kDispatch.clGetExtensionFunctionAddress(name);
}
WEIR_EXPORT cl_int clIcdGetPlatformIDsKHR(cl_uint count, cl_platform_id* platforms, cl_uint* count_ret) {
  return icd::kDispatch.clGetPlatformIDs(count, platforms, count_ret);
}
WEIR_EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t size, void* value,
                                     size_t* size_ret) {
  return icd::kDispatch.clGetPlatformInfo(platform, name, size, value, size_ret);
}
// NOLINTEND(readability-identifier-naming)
