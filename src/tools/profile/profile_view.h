// SPDX-License-Identifier: Apache-2.0
// A profile as tables for people, and as a scenario of the simulator. Pure.
#pragma once

#include <string>

#include "modules/kernel_profile.h"

namespace weir::cli {

/// Tables of the kernels' times and loads, and of each kernel's slowdown beside each other kernel.
std::string ProfileTables(const modules::KernelProfile& profile, bool color);

/// The result of the fit over the pairs, and its error; one or more lines.
std::string FitText(const modules::KernelProfile& profile, const core::InterferenceModel& model);

/// A file for `weir sim run` (docs/scenarios.md) in which kernels take the measured times. kInvalidArgument: a pair is
/// missing.
Result<std::string> ScenarioText(const modules::KernelProfile& profile);

}  // namespace weir::cli
