// SPDX-License-Identifier: Apache-2.0
// One part of a launch, ready to run on this executor's driver or on another executor.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernel/part_slices.h"
#include "opencl/executor/part_program.h"

namespace weir::opencl {

/// An argument of a part's kernel.
struct PartArg {
  enum class Kind { kSlice, kNull, kBytes, kLocal } kind = Kind::kNull;
  std::size_t slice = 0;  // index in the part's slices
  std::vector<std::byte> bytes{};
  std::uint64_t local = 0;  // bytes of local memory
};

struct PartLaunch {
  std::string kernel{};  // kernel name in the program
  kernel::PartSlices slices{};
  std::vector<bool> alike{};  // for each slice: all parts of the launch share it, and none writes to it
  std::vector<PartArg> args{};
  unsigned dimensions = 1;
  std::array<std::uint64_t, 3> offset{}, global{1, 1, 1}, local{1, 1, 1};
};

}  // namespace weir::opencl
