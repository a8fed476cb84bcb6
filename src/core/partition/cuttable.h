// SPDX-License-Identifier: Apache-2.0
// May a launch be cut between its work-groups? Along a dimension it may where no group writes what a group elsewhere
// along it reads or writes (Mekong's rule: writes are proven injective, reads need only be bounded). Pure.
#pragma once

#include <array>
#include <string>

#include "core/partition/footprint.h"

namespace weir::core {

struct CutAnswer {
  bool yes = false;
  std::string why_not{};   // in words, for people
  std::uint32_t line = 0;  // of the source, that this is about; 0: none
};

/// An answer for each dimension. Every write is inside of its buffer where the answer is yes, and so is each read whose
/// range is known.
std::array<CutAnswer, 3> Cuttable(const KernelAccess& access, const KernelLaunch& launch);

}  // namespace weir::core
