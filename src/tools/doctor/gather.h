// SPDX-License-Identifier: Apache-2.0
// Gathers the facts without running the program.
#pragma once

#include <string>

#include "cli/common/places.h"
#include "tools/doctor/facts.h"

namespace weir::cli {

InstallFacts GatherInstall();
EnvironmentFacts GatherEnvironment();
DaemonFacts GatherDaemon(const Places& places);
ProgramFacts GatherProgram(const std::string& name);

}  // namespace weir::cli
