// SPDX-License-Identifier: Apache-2.0
// round-robin: vGPUs use the device in equal turns, to one vGPU at a time. Page: docs/policies/round-robin.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

struct RoundRobinParams {
  Duration quantum = milliseconds(2);
  Duration tick = microseconds(500);

  static constexpr void Fields(auto&& each) {
    using P = RoundRobinParams;
    each(ParamInfo{"quantum_ms", "ms of GPU time", 0.1, 1000, "length of a turn"}, &P::quantum);
    each(ParamInfo{"tick_ms", "ms", 0.1, 100, "period of checking the turn while vGPUs compete"}, &P::tick);
  }
};

std::unique_ptr<Policy> MakeRoundRobin(const RoundRobinParams& params);

}  // namespace weir::core
