// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "platform/shared_library.h"

extern "C" int cuInit(unsigned flags);  // NOLINT(readability-identifier-naming): forward.S

namespace weir::shim::cuda {
namespace {

constexpr const char* kNames[] = {
#define WEIR_FUNCTION(name) #name,
#define WEIR_HOOKED(name) #name,
#include "shim/cuda/driver_functions.inc"
#undef WEIR_FUNCTION
#undef WEIR_HOOKED
};

/// What programs get from a libcuda.so.1 that is no driver.
CudaResult NoDriver() { return kStubLibrary; }
CudaResult NotThere() { return kNotFound; }

/// The path of this library.
const char* Self() {
  Dl_info self{};
  return ::dladdr(&kNames, &self) != 0 ? self.dli_fname : nullptr;
}

/// The driver that `weir run` has found. A program that gets the library path but not the other variables, as from
/// another machine, uses the driver that the loader would find.
void* Open() {
  const char* const named = ::secure_getenv("WEIR_CUDA_DRIVER");
  std::string path = named != nullptr ? named : "";
  if (!path.starts_with('/') || ::access(path.c_str(), F_OK) != 0) {
    const char *const folders = ::getenv("LD_LIBRARY_PATH"), *const self = Self();
    path = platform::FindSharedLibrary("libcuda.so.1", folders != nullptr ? folders : "", self != nullptr ? self : "");
  }
  const char* why = "there is none";
  if (void* driver = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    // Another Weir's library may open this one as its driver.
    if (::dlsym(driver, "cuInit") != reinterpret_cast<void*>(&cuInit)) return driver;
    why = "it is this library";
  } else if (!path.empty()) {
    why = ::dlerror();
  }
  std::fprintf(stderr, "weir: CUDA's driver %s can't be loaded: %s\n", path.c_str(), why != nullptr ? why : "unknown");
  return nullptr;
}

/// Opens the driver when the program loads this library, as the driver itself would be loaded.
__attribute__((constructor)) void OpenDriver() {
  void* driver = nullptr;
  try {
    driver = Open();
  } catch (...) {  // out of memory
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
