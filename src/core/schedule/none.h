// SPDX-License-Identifier: Apache-2.0
// none: first come, first served, as drivers do by themselves. Measures, never waits.
#pragma once

#include <memory>

#include "core/schedule/policy_table.h"

namespace weir::core {

std::unique_ptr<Policy> MakeNone(const PolicyParams& checked);

}  // namespace weir::core
