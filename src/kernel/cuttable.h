// SPDX-License-Identifier: Apache-2.0
// Decides whether a launch may be cut between its work-groups. It may be cut along a dimension if no group writes what
// another group along this dimension reads or writes (Mekong's rule: writes are proven injective, reads need only be
// bounded). Pure.
#pragma once

#include <array>
#include <string>

#include "kernel/footprint.h"

namespace weir::kernel {

struct CutAnswer {
  bool yes = false;
  std::string why_not{};   // text for users
  std::uint32_t line = 0;  // source line of the reason; 0: none
};

/// The answer for each dimension. With a yes, every write is inside its buffer, and so is each read with a known range.
std::array<CutAnswer, 3> Cuttable(const KernelAccess& access, const KernelLaunch& launch);

}  // namespace weir::kernel
