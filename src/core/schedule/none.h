// SPDX-License-Identifier: Apache-2.0
// none: first come, first served, as without Weir. Only measures; no program ever waits.
#pragma once

#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

struct NoneParams {
  static constexpr void Fields(auto&&) {}
};

std::unique_ptr<Policy> MakeNone(const NoneParams& params);

}  // namespace weir::core
