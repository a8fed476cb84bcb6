// SPDX-License-Identifier: Apache-2.0
// reserve: VGRIS's proportional-share scheduling to the letter (posterior enforcement, eq. 1). Not work-conserving.
// Page: docs/policies/reserve.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

struct ReserveParams {
  Duration period = milliseconds(1);

  static constexpr void Fields(auto&& each) {
    each(ParamInfo{"period_ms", "ms", 0.1, 1000, "replenishment period t (VGRIS: 1 ms)"}, &ReserveParams::period);
  }
};

std::unique_ptr<Policy> MakeReserve(const ReserveParams& params);

}  // namespace weir::core
