// SPDX-License-Identifier: Apache-2.0
// What somebody who reads the report elsewhere wants to know of the machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/control_client.h"

namespace weir::cli {

Result<std::vector<std::pair<std::string, std::string>>> CollectFacts(const ControlClient& client,
                                                                      const std::string& display);

}  // namespace weir::cli
