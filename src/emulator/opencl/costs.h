// SPDX-License-Identifier: Apache-2.0
// The costs of commands according to the device description file. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "emulator/device_file.h"
#include "emulator/opencl/timeline.h"

namespace weir::emulator::cl {

struct KernelWork {
  Work work;
  bool computed = true;
};

/// The work of a kernel's launch, or of another command of the device by its name in OpenCL ("clEnqueueFillBuffer"),
/// whose items are bytes. Without an entry that matches, the cost is measured.
KernelWork WorkOf(const std::vector<KernelCost>& kernels, double factor, std::string_view name, std::uint64_t items);

/// A copy over the link.
inline Work CopyWork(core::EngineKind engine, std::uint64_t bytes) {
  return {.cost = Work::Cost::kKnown, .engine = engine, .bytes = Bytes{bytes}};
}

}  // namespace weir::emulator::cl
