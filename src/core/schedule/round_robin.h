// SPDX-License-Identifier: Apache-2.0
// round-robin: vGPUs use the device in equal turns. Page: docs/policies/round-robin.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

struct RoundRobinParams {
  Duration quantum = milliseconds(2);
  Duration tick = microseconds(500);
  Duration grace = milliseconds(10);

  static constexpr void Fields(auto&& each) {
    using P = RoundRobinParams;
    each(ParamInfo{"quantum_ms", "ms of GPU time", 0.1, 1000, "length of a turn"}, &P::quantum);
    each(ParamInfo{"tick_ms", "ms", 0.1, 100, "period of checking the turn while vGPUs compete"}, &P::tick);
    each(ParamInfo{"grace_ms", "ms", 0, 1000,
                   "longest wait for the next frame of a vGPU before one in greater debt has the turn; 0: as gVirt"},
         &P::grace);
  }
};

/// Upper bound of the time for which the device has no work while a vGPU waits that its cap does not hold back: a tick
/// until the end of a frame is noticed, `grace` for the next frame of the vGPU that is expected, and a tick and
/// kLookSpacing until the next decision.
constexpr Duration ReactionTime(const RoundRobinParams& params) {
  return params.tick + params.grace + params.tick + kLookSpacing;
}

std::unique_ptr<Policy> MakeRoundRobin(const RoundRobinParams& params);

}  // namespace weir::core
