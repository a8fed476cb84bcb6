// SPDX-License-Identifier: Apache-2.0
// round-robin: vGPUs use the device in equal turns, to one vGPU at a time. Page: docs/policies/round-robin.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/policy_table.h"

namespace weir::core {

inline constexpr std::array kRoundRobinParams{
    PolicyParam{"quantum_ms", "ms of GPU time", 2.0, 0.1, 1000.0, "length of a turn"},
    PolicyParam{"tick_ms", "ms", 0.5, 0.1, 100.0, "period of checking the turn while vGPUs compete"},
};

std::unique_ptr<Policy> MakeRoundRobin(const PolicyParams& checked);

}  // namespace weir::core
