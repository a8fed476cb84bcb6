// SPDX-License-Identifier: Apache-2.0
// Facts about the machine for readers of the report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/common/control_client.h"

namespace weir::cli {

Result<std::vector<std::pair<std::string, std::string>>> CollectFacts(const ControlClient& client,
                                                                      const std::string& display);

}  // namespace weir::cli
