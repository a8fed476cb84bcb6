// SPDX-License-Identifier: Apache-2.0
// sla-aware: each program runs at its promised rate and no faster, so that slow programs get what fast ones don't need
// (VGRIS, section 3.2). Page: docs/policies/sla-aware.md
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

/// Names of the values of FrameSync.
inline constexpr std::array<std::string_view, 5> kFrameSyncNames{"auto", "none", "flush", "fence", "finish"};

inline constexpr std::array<std::string_view, 2> kFrameStartNames{"early", "late"};

struct SlaAwareParams {
  double fps = 30;
  FrameSync sync{};
  FrameStart frame_start{};
  bool cap_rates = false;
  bool give_way = false;

  static constexpr void Fields(auto&& each) {
    using P = SlaAwareParams;
    each(ParamInfo{"fps", "frames/s", 0, 1000, "rate of a vGPU without its own promise; 0: unlimited"}, &P::fps);
    each(ParamInfo{"cap_rates", "switch", 0, 1,
                   "1: beside other promises a promised rate implies a cap: 1.25 times what it needs"},
         &P::cap_rates);
    each(
        ParamInfo{
            "frame_start", "choice", 0, 1,
            "early: programs wait before their present; late: before they begin a frame, so that it shows later input",
            kFrameStartNames},
        &P::frame_start);
    each(ParamInfo{"give_way", "switch", 0, 1,
                   "1: where promised rates need more than the device has, the lightest gives way"},
         &P::give_way);
    each(ParamInfo{"sync", "choice", 0, 4,
                   "synchronisation before a frame is delayed; auto: finish on a software renderer, fence on hardware",
                   kFrameSyncNames},
         &P::sync);
  }
};

std::unique_ptr<Policy> MakeSlaAware(const SlaAwareParams& params);

}  // namespace weir::core
