// SPDX-License-Identifier: Apache-2.0
#include "emulator/cuda/exported.h"

#include <algorithm>
#include <iterator>

// Declared without their types and by other names, because only the addresses are needed here.
// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
#define FUNCTION(name) extern "C" void weir_at_##name() __asm__(#name);
#include "emulator/cuda/functions.inc"
#undef FUNCTION

namespace weir::emulator::cuda {
namespace {

struct Function {
  const char* name;
  void (*address)();
};
constexpr Function kFunctions[] = {
#define FUNCTION(name) {#name, &weir_at_##name},
#include "emulator/cuda/functions.inc"
#undef FUNCTION
};
// NOLINTEND(readability-identifier-naming)

}  // namespace

void* Exported(const std::string& name) {
  const auto* found = std::ranges::find_if(kFunctions, [&](const Function& one) { return name == one.name; });
  return found == std::end(kFunctions) ? nullptr : reinterpret_cast<void*>(found->address);
}

}  // namespace weir::emulator::cuda
