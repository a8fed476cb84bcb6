// SPDX-License-Identifier: Apache-2.0
// Start-time fair queueing (Goyal, Vin and Cheng, 1996) with D requests on the device (SFQ(D): Jin, Chase and Kaur,
// 2004).
#pragma once

#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::sim {

struct StartTimeFairParams {
  double depth = 1;
  Duration tick = microseconds(500);

  static constexpr void Fields(auto&& each) {
    using P = StartTimeFairParams;
    each(core::ParamInfo{"depth", "frames and kernels", 1, 64, "how many the device has at a time"}, &P::depth);
    each(core::ParamInfo{"tick_ms", "ms", 0.1, 100, "period of decisions while vGPUs compete"}, &P::tick);
  }
};

std::unique_ptr<core::Policy> MakeStartTimeFair(const StartTimeFairParams& params);

}  // namespace weir::sim
