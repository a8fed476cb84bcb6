// SPDX-License-Identifier: Apache-2.0
// sla-aware: each program runs at its promised rate and no faster, so that slow programs get what fast ones don't need
// (VGRIS, section 3.2). Page: docs/policies/sla-aware.md
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "core/schedule/policy_table.h"

namespace weir::core {

/// Names of the values of FrameSync.
inline constexpr std::array<std::string_view, 5> kFrameSyncNames{"auto", "none", "flush", "fence", "finish"};

inline constexpr std::array kSlaAwareParams{
    PolicyParam{"fps", "frames/s", 30.0, 0.0, 1000.0, "rate of a vGPU without its own promise; 0: unlimited"},
    PolicyParam{"sync", "choice", 0.0, 0.0, 4.0,
                "synchronisation before a frame is delayed; auto: finish on a software renderer, fence on hardware",
                kFrameSyncNames},
};

std::unique_ptr<Policy> MakeSlaAware(const PolicyParams& checked);

}  // namespace weir::core
