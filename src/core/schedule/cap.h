// SPDX-License-Identifier: Apache-2.0
// cap: each vGPU gets its cap's part of every period and no more, in stages; debt is carried over. cap-paper: the same
// exactly as printed in gOver, where each period forgives debt. Page: docs/policies/cap.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/policy_table.h"

namespace weir::core {

inline constexpr std::array kCapParams{
    PolicyParam{"period_ms", "ms", 1000.0, 10.0, 60000.0,
                "length of a period, at whose end unused time is lost (gOver: 1 s)"},
    PolicyParam{"stages", "stages", 10.0, 1.0, 100.0,
                "number of stages in a period, each with its part of the cap (gOver: 10)"},
    PolicyParam{"quantum_ms", "ms of GPU time", 5.0, 0.1, 100.0,
                "GPU time that all vGPUs with time left may together run ahead of the last"},
    PolicyParam{
        "ahead_ms", "ms of GPU time", 2.0, 0.0, 100.0,
        "while a vGPU is behind its promised rate, others submit only below this load of the device; 0: by caps alone"},
    PolicyParam{"lend_ms", "ms of GPU time", 3.0, 0.0, 1000.0,
                "longest frame or kernel that may exceed its cap, up to its ceiling, on a device that would be idle"},
};
inline constexpr std::array kCapPaperParams{
    PolicyParam{"period_ms", "ms", 1000.0, 10.0, 60000.0,
                "length of a period, at whose end debt and savings end (gOver: 1 s)"},
    PolicyParam{"stages", "stages", 10.0, 1.0, 100.0,
                "number of stages in a period, each with its part of the cap (gOver: 10)"},
    PolicyParam{"quantum_ms", "ms of GPU time", 1.0, 0.1, 100.0, "length of a turn (gVirt: about 1 ms)"},
};

std::unique_ptr<Policy> MakeCap(const PolicyParams& checked);
std::unique_ptr<Policy> MakeCapPaper(const PolicyParams& checked);

}  // namespace weir::core
