// SPDX-License-Identifier: Apache-2.0
// A kernel that moves ints between two buffers, for tests of slices and of what parts need.
#pragma once

#include <array>
#include <cstring>

#include "kernel/launch_forms.h"
#include "tests/harness/drawn_kernel.h"

namespace weir::kernel {

/// to[a * id + b] = from[c * id + d] + id, in ints, in a launch with groups of `local` items.
struct Mover {
  std::int64_t a = 1, b = 0, c = 1, d = 0;
  DrawnKernel kernel{};
  std::array<LaunchArgument, 2> arguments{};  // from, to
  KernelLaunch launch{};

  void Prepare(std::uint64_t groups, std::uint64_t local) {
    const auto from = kernel.Buffer(), to = kernel.Buffer();
    const auto at = [&](std::int64_t factor, std::int64_t offset) {
      return kernel.Plus(kernel.Scaled(kernel.Id(0), 4 * factor), kernel.table.Constant(4 * offset));
    };
    kernel.Touch(from, false, at(c, d));
    kernel.Touch(to, true, at(a, b));
    kernel.Done();
    launch.local[0] = local;
    launch.global[0] = groups * local;
    launch.arguments = arguments;
  }
  /// Runs one work-item, on pointers to the beginnings of its arguments.
  void Run(std::int64_t id, const std::uint8_t* from, std::uint8_t* to) const {
    std::int32_t value = 0;
    std::memcpy(&value, from + 4 * (c * id + d), sizeof value);
    value += static_cast<std::int32_t>(id);
    std::memcpy(to + 4 * (a * id + b), &value, sizeof value);
  }
};

}  // namespace weir::kernel
