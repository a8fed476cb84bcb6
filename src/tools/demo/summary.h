// SPDX-License-Identifier: Apache-2.0
// The demo's results as a table and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/demo/plan.h"

namespace weir::cli {

std::string RenderSummary(const DemoResult& result, bool color);
nlohmann::json SummaryJson(const DemoResult& result);

/// "gears: 60 fps, so a frame is late after 17.7 ms"; empty without a promised rate.
std::string LatenessText(const std::vector<Workload>& workloads);
/// The duration in milliseconds beyond which a frame is late; 0: none is.
double LateAfterMs(const Workload& workload);
/// The command line as typed in a shell.
std::string CommandText(const Workload& workload);

}  // namespace weir::cli
