// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/hooked.h"

#include "shim/cuda/driver.h"

// Declared without their types and by other names, because only the addresses are needed here.
// NOLINTBEGIN(readability-identifier-naming): the names are the driver's
#define WEIR_FUNCTION(name)
#define WEIR_HOOKED(name) extern "C" void weir_at_##name() __asm__(#name);
#include "shim/cuda/driver_functions.inc"
#undef WEIR_HOOKED

namespace weir::shim::cuda {
namespace {

struct Hooked {
  Function function;
  void (*ours)();
};

constexpr Hooked kHooked[] = {
#define WEIR_HOOKED(name) {kCall_##name, &weir_at_##name},
#include "shim/cuda/driver_functions.inc"
#undef WEIR_HOOKED
#undef WEIR_FUNCTION
};
// NOLINTEND(readability-identifier-naming)

}  // namespace

void* InPlaceOf(void* function) {
  for (const Hooked& one : kHooked)
    if (weir_cuda_driver[one.function] == function && DriverHas(one.function)) return reinterpret_cast<void*>(one.ours);
  return function;
}

}  // namespace weir::shim::cuda
