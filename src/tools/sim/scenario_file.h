// SPDX-License-Identifier: Apache-2.0
// Scenarios as TOML files: docs/scenarios.md. Every key is known or refused, with its line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/scenario.h"

namespace weir::cli {

/// kInvalidArgument names the place and what is allowed there.
Result<sim::Scenario> ParseScenario(std::string_view text, const std::string& place);

/// Loads a file. A name without a folder means `NAME.toml` in the installed folder of scenarios or in the source
/// tree's.
Result<sim::Scenario> LoadScenario(const std::string& file_or_name);

/// The files of that folder, by name.
Result<std::vector<std::string>> ListScenarios();

}  // namespace weir::cli
