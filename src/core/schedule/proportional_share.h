// SPDX-License-Identifier: Apache-2.0
// proportional-share: work-conserving weighted virtual time. Page: docs/policies/proportional-share.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/policy_table.h"

namespace weir::core {

inline constexpr std::array kProportionalShareParams{
    PolicyParam{"quantum_ms", "ms of GPU time", 5.0, 0.1, 100.0,
                "GPU time that all competing vGPUs together may run ahead of the last"},
    PolicyParam{"lag_ms", "ms of GPU time", 100.0, 1.0, 10000.0,
                "upper bound of what a vGPU that could not use its share may catch up"},
    PolicyParam{"grace_ms", "ms", 10.0, 0.0, 1000.0, "longest wait for the next frame of a vGPU that is behind"},
    PolicyParam{"hold_duty", "fraction", 0.7, 0.0, 1.0,
                "use of the device alone from which a vGPU is always waited for"},
    PolicyParam{"member_ms", "ms", 1000.0, 1.0, 60000.0,
                "how long after its last frame a vGPU keeps its claim to catch up"},
    PolicyParam{"tick_ms", "ms", 1.0, 0.1, 100.0, "period of renewing allowances while vGPUs compete"},
};

std::unique_ptr<Policy> MakeProportionalShare(const PolicyParams& checked);

}  // namespace weir::core
