// SPDX-License-Identifier: Apache-2.0
// The outcome of the demo as a table for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/demo/plan.h"

namespace weir::cli {

std::string RenderSummary(const DemoResult& result, bool color);
nlohmann::json SummaryJson(const DemoResult& result);

/// "gears: 60 fps, so a frame is late after 17.7 ms"; "" where nothing is promised.
std::string LatenessText(const std::vector<Workload>& workloads);
/// A frame later than this many milliseconds breaks the promise; 0: none does.
double LateAfterMs(const Workload& workload);
/// The command line, as one would type it.
std::string CommandText(const Workload& workload);

}  // namespace weir::cli
