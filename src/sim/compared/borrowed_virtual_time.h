// SPDX-License-Identifier: Apache-2.0
// Borrowed virtual time (Duda and Cheriton, 1999). No vGPU has a warp, because Weir's weights have none.
#pragma once

#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::sim {

struct BorrowedVirtualTimeParams {
  Duration ahead = milliseconds(5);
  Duration tick = microseconds(500);

  static constexpr void Fields(auto&& each) {
    using P = BorrowedVirtualTimeParams;
    each(core::ParamInfo{"ahead_ms", "ms of GPU time", 0.1, 1000,
                         "context-switch allowance: how far the running vGPU gets ahead of the next"},
         &P::ahead);
    each(core::ParamInfo{"tick_ms", "ms", 0.1, 100, "period of decisions while vGPUs compete"}, &P::tick);
  }
};

std::unique_ptr<core::Policy> MakeBorrowedVirtualTime(const BorrowedVirtualTimeParams& params);

}  // namespace weir::sim
