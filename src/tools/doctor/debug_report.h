// SPDX-License-Identifier: Apache-2.0
// The state of a node as one JSON document, for a bug report: versions, the host, the run folder, and what the daemon
// answers. It contains no token or key.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/common/control_client.h"
#include "cli/common/places.h"

namespace weir::cli {

/// If the daemon does not answer, its part of the report says why.
nlohmann::ordered_json DebugReport(const Places& places, const ControlClient& client);

}  // namespace weir::cli
