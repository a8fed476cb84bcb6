// SPDX-License-Identifier: Apache-2.0
// proportional-share: work-conserving weighted virtual time. Page: docs/policies/proportional-share.md
#pragma once

#include <array>
#include <memory>

#include "core/schedule/anticipation.h"
#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

struct ProportionalShareParams {
  Duration quantum = milliseconds(5);
  Duration lag = milliseconds(100);
  Duration grace = milliseconds(10);
  double hold_duty = kHoldDuty;
  Duration member = seconds(1);
  Duration tick = milliseconds(1);

  static constexpr void Fields(auto&& each) {
    using P = ProportionalShareParams;
    each(ParamInfo{"quantum_ms", "ms of GPU time", 0.1, 100,
                   "GPU time that all competing vGPUs together may run ahead of the last"},
         &P::quantum);
    each(ParamInfo{"lag_ms", "ms of GPU time", 1, 10000,
                   "upper bound of what a vGPU that could not use its share may catch up"},
         &P::lag);
    each(ParamInfo{"grace_ms", "ms", 0, 1000, "longest wait for the next frame of a vGPU that is behind"}, &P::grace);
    each(ParamInfo{"hold_duty", "fraction", 0, 1, "use of the device alone from which a vGPU is always waited for"},
         &P::hold_duty);
    each(ParamInfo{"member_ms", "ms", 1, 60000, "how long after its last frame a vGPU keeps its claim to catch up"},
         &P::member);
    each(ParamInfo{"tick_ms", "ms", 0.1, 100, "period of renewing allowances while vGPUs compete"}, &P::tick);
  }
};

/// Upper bound of the time for which the device has no work while a vGPU waits that its cap does not hold back: a tick
/// until the end of a frame is noticed, `grace` for the next frame of the vGPU that is expected, and a tick and
/// kLookSpacing until the next decision.
constexpr Duration ReactionTime(const ProportionalShareParams& params) {
  return params.tick + params.grace + params.tick + kLookSpacing;
}

std::unique_ptr<Policy> MakeProportionalShare(const ProportionalShareParams& params);

}  // namespace weir::core
