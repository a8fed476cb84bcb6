// SPDX-License-Identifier: Apache-2.0
// Gathers the facts without running the program.
#pragma once

#include <string>

#include "cli/doctor/facts.h"
#include "cli/places.h"

namespace weir::cli {

InstallFacts GatherInstall();
EnvironmentFacts GatherEnvironment();
DaemonFacts GatherDaemon(const Places& places);
ProgramFacts GatherProgram(const std::string& name);

}  // namespace weir::cli
