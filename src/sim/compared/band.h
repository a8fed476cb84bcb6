// SPDX-License-Identifier: Apache-2.0
// BAND, the scheduler of Gdev (Kato and others, 2012), with the constants of its published source.
#pragma once

#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::sim {

struct BandParams {
  Duration period = milliseconds(30);
  Duration yield = microseconds(500);
  Duration tick = microseconds(500);

  static constexpr void Fields(auto&& each) {
    using P = BandParams;
    each(core::ParamInfo{"period_ms", "ms", 1, 1000, "credits are given once in each, and never more than one of them"},
         &P::period);
    each(core::ParamInfo{"yield_ms", "ms", 0, 100,
                         "how long a vGPU beyond its bandwidth lets others arrive before it has the device"},
         &P::yield);
    each(core::ParamInfo{"tick_ms", "ms", 0.1, 100, "period of decisions while vGPUs compete"}, &P::tick);
  }
};

std::unique_ptr<core::Policy> MakeBand(const BandParams& params);

}  // namespace weir::sim
