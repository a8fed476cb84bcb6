// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress, by which CUDA's runtime finds every function. The driver is asked first, so that versions, flags
// and missing functions are its decisions. The answer is replaced by its address, because drivers give out the
// addresses of the functions that they export.
#include "shim/cuda/driver.h"
#include "shim/cuda/hooked.h"

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuda = weir::shim::cuda;

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's
WEIR_EXPORT cuda::CudaResult cuGetProcAddress(const char* name, void** function, int version,
                                              unsigned long long flags) {
  const cuda::CudaResult result =
      cuda::Driver<decltype(cuGetProcAddress)>(cuda::kCall_cuGetProcAddress)(name, function, version, flags);
  if (result == cuda::kSuccess && function != nullptr) *function = cuda::InPlaceOf(*function);
  return result;
}

WEIR_EXPORT cuda::CudaResult cuGetProcAddress_v2(const char* name, void** function, int version,
                                                 unsigned long long flags, int* found) {
  const cuda::CudaResult result = cuda::Driver<decltype(cuGetProcAddress_v2)>(cuda::kCall_cuGetProcAddress_v2)(
      name, function, version, flags, found);
  if (result == cuda::kSuccess && function != nullptr) *function = cuda::InPlaceOf(*function);
  return result;
}
// NOLINTEND(readability-identifier-naming)
