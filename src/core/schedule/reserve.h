// SPDX-License-Identifier: Apache-2.0
// reserve: VGRIS's proportional-share scheduling to the letter (posterior enforcement, eq. 1). Not work-conserving.
// Page: docs/policies/reserve.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/policy_table.h"

namespace weir::core {

inline constexpr std::array kReserveParams{
    PolicyParam{"period_ms", "ms", 1.0, 0.1, 1000.0, "replenishment period t (VGRIS: 1 ms)"},
};

std::unique_ptr<Policy> MakeReserve(const PolicyParams& checked);

}  // namespace weir::core
