// SPDX-License-Identifier: Apache-2.0
// The demo's report: a self-contained HTML file.
#pragma once

#include <string>

#include "tools/demo/plan.h"

namespace weir::cli {

std::string RenderReport(const DemoResult& result);

}  // namespace weir::cli
