// SPDX-License-Identifier: Apache-2.0
// A profile as people read it, and as a scenario of the simulator's. Pure.
#pragma once

#include <string>

#include "modules/kernel_profile.h"

namespace weir::cli {

/// Kernels with their times and loads, and how many times its time alone each one takes beside each.
std::string ProfileTables(const modules::KernelProfile& profile, bool color);

/// What the line through the pairs says, and how far off it is; a line or more.
std::string FitText(const modules::KernelProfile& profile, const core::InterferenceModel& model);

/// A file for `weir sim run` (docs/scenarios.md) in which the kernels take what was measured. kInvalidArgument: a pair
/// is missing.
Result<std::string> ScenarioText(const modules::KernelProfile& profile);

}  // namespace weir::cli
