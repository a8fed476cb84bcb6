// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace weir::shim::cuda {
namespace {

constexpr const char* kNames[] = {
#define FUNCTION(name) #name,
#define HOOKED(name) #name,
#include "shim/cuda/driver_functions.inc"
#undef FUNCTION
#undef HOOKED
};

/// What programs get from a libcuda.so.1 that is no driver.
CudaResult NoDriver() { return kStubLibrary; }
CudaResult NotThere() { return kNotFound; }

/// Opens the driver when the program loads this library, as the driver itself would be loaded. `weir run` has found it.
__attribute__((constructor)) void OpenDriver() {
  const char* path = ::secure_getenv("WEIR_CUDA_DRIVER");
  void* driver = path != nullptr && *path == '/' ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (driver == nullptr) {
    const char* why = path == nullptr || *path != '/' ? "WEIR_CUDA_DRIVER does not name it" : ::dlerror();
    std::fprintf(stderr, "weir: CUDA's driver can't be loaded: %s\n", why != nullptr ? why : path);
  }
  for (std::size_t i = 0; i < kFunctions; ++i) {
    void* function = driver != nullptr ? ::dlsym(driver, kNames[i]) : nullptr;
    if (function == nullptr) function = reinterpret_cast<void*>(driver != nullptr ? &NotThere : &NoDriver);
    weir_cuda_driver[i] = function;
  }
}

}  // namespace

void* weir_cuda_driver[kFunctions];

bool DriverHas(Function function) {
  return weir_cuda_driver[function] != reinterpret_cast<void*>(&NotThere) &&
         weir_cuda_driver[function] != reinterpret_cast<void*>(&NoDriver);
}

}  // namespace weir::shim::cuda
