// SPDX-License-Identifier: Apache-2.0
// none: first come, first served, as without Weir. Only measures; no program ever waits.
#pragma once

#include <memory>

#include "core/schedule/policy_table.h"

namespace weir::core {

std::unique_ptr<Policy> MakeNone(const PolicyParams& checked);

}  // namespace weir::core
