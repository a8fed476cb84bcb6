// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress_v2: gives out the addresses of the functions that this library exports, as NVIDIA's driver does.
#include <string>

#include "emulator/cuda/driver.h"
#include "emulator/cuda/exported.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the function below alone

namespace {

/// A base name stands for its newest version. The variants for per-thread default streams go before the others.
void* Choose(const std::string& name, int version, bool per_thread) {
  constexpr int kSecondVersions = 3020;  // CUDA 3.2
  for (const char* suffix : {"_ptsz", "_ptds", ""}) {
    if (!per_thread && *suffix != '\0') continue;
    if (version >= kSecondVersions)
      if (void* second = Exported(name + "_v2" + suffix)) return second;
    if (void* first = Exported(name + suffix)) return first;
  }
  return nullptr;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the name is NVIDIA's
WEIR_EXPORT Result cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags,
                                       int* status) {
  constexpr unsigned long long kPerThread = 2;
  constexpr int kFound = 0, kSymbolNotFound = 1;
  if (name == nullptr || function == nullptr || flags > kPerThread) return kInvalidValue;
  try {
    *function = Choose(name, version, flags == kPerThread);
  } catch (...) {
    return kOutOfMemory;
  }
  if (status != nullptr) *status = *function != nullptr ? kFound : kSymbolNotFound;
  return kSuccess;
}
// NOLINTEND(readability-identifier-naming)
