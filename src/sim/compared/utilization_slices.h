// SPDX-License-Identifier: Apache-2.0
// Utilization partition, a policy of XSched (OSDI 2025, and its published source).
#pragma once

#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::sim {

struct UtilizationSlicesParams {
  Duration round = milliseconds(10);
  Duration tick = microseconds(500);

  static constexpr void Fields(auto&& each) {
    using P = UtilizationSlicesParams;
    each(core::ParamInfo{"round_ms", "ms", 0.1, 1000, "the slices of all vGPUs together"}, &P::round);
    each(core::ParamInfo{"tick_ms", "ms", 0.1, 100, "period of decisions while vGPUs compete"}, &P::tick);
  }
};

std::unique_ptr<core::Policy> MakeUtilizationSlices(const UtilizationSlicesParams& params);

}  // namespace weir::sim
