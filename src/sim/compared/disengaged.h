// SPDX-License-Identifier: Apache-2.0
// Disengaged fair queueing (Menychtas, Shen and Scott, ASPLOS 2014).
#pragma once

#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::sim {

struct DisengagedParams {
  Duration free_run = milliseconds(25);
  Duration sample = milliseconds(5);

  static constexpr void Fields(auto&& each) {
    using P = DisengagedParams;
    each(core::ParamInfo{"free_run_ms", "ms", 1, 1000, "time between two decisions about who may use the device"},
         &P::free_run);
    each(core::ParamInfo{"sample_ms", "ms", 0.1, 1000, "sampling in an engagement, for each vGPU that is active"},
         &P::sample);
  }
};

std::unique_ptr<core::Policy> MakeDisengaged(const DisengagedParams& params);

}  // namespace weir::sim
