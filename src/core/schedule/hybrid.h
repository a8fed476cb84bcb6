// SPDX-License-Identifier: Apache-2.0
// hybrid: shares while every program keeps its rate, sla-aware otherwise (VGRIS, Algorithm 1 and eq. 2).
// Page: docs/policies/hybrid.md
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "core/schedule/policy_table.h"
#include "core/schedule/sla_aware.h"

namespace weir::core {

inline constexpr std::array<std::string_view, 2> kHybridShareNames{"proportional-share", "reserve"};

inline constexpr std::array kHybridParams{
    PolicyParam{"fps", "frames/s", 30.0, 1.0, 1000.0, "least acceptable rate of a vGPU without a promise (FPSthres)"},
    PolicyParam{"fps_slack", "fraction", 0.05, 0.0, 0.5, "shortfall below the promise at which a rate is too low"},
    PolicyParam{"gpu_use", "fraction", 0.85, 0.01, 1.0, "use of the device below which shares return (GPUthres)"},
    PolicyParam{"wait_s", "s", 5.0, 1.0, 3600.0, "duration of either condition before a switch (Time)"},
    PolicyParam{"shares", "choice", 0.0, 0.0, 1.0, "the policy that keeps the shares; reserve: exactly as in the paper",
                kHybridShareNames},
    PolicyParam{"sync", "choice", 0.0, 0.0, 4.0, "as sync of sla-aware", kFrameSyncNames},
};

std::unique_ptr<Policy> MakeHybrid(const PolicyParams& checked);

}  // namespace weir::core
