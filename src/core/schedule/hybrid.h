// SPDX-License-Identifier: Apache-2.0
// hybrid: shares while every program keeps its rate, sla-aware otherwise (VGRIS, Algorithm 1 and eq. 2).
// Page: docs/policies/hybrid.md
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"
#include "core/schedule/sla_aware.h"

namespace weir::core {

inline constexpr std::array<std::string_view, 2> kHybridShareNames{"proportional-share", "reserve"};

/// The policy that keeps the shares, by its place in kHybridShareNames.
enum class HybridShares : std::uint8_t { kProportionalShare, kReserve };

struct HybridParams {
  double fps = 30;
  double fps_slack = 0.05;
  double gpu_use = 0.85;
  Duration wait = seconds(5);
  HybridShares shares = HybridShares::kProportionalShare;
  FrameSync sync{};
  FrameStart frame_start{};
  bool cap_rates = false;
  bool give_way = false;

  static constexpr void Fields(auto&& each) {
    using P = HybridParams;
    each(ParamInfo{"fps", "frames/s", 1, 1000, "least acceptable rate of a vGPU without a promise (FPSthres)"},
         &P::fps);
    each(ParamInfo{"fps_slack", "fraction", 0, 0.5, "shortfall below the promise at which a rate is too low"},
         &P::fps_slack);
    each(ParamInfo{"gpu_use", "fraction", 0.01, 1, "use of the device below which shares return (GPUthres)"},
         &P::gpu_use);
    each(ParamInfo{"wait_s", "s", 1, 3600, "duration of either condition before a switch (Time)"}, &P::wait);
    each(ParamInfo{"cap_rates", "switch", 0, 1,
                   "1: beside other promises a promised rate implies a cap: 1.25 times what it needs"},
         &P::cap_rates);
    each(ParamInfo{"frame_start", "choice", 0, 1, "as frame_start of sla-aware", kFrameStartNames}, &P::frame_start);
    each(ParamInfo{"give_way", "switch", 0, 1,
                   "1: where promised rates need more than the device has, the lightest gives way"},
         &P::give_way);
    each(ParamInfo{"shares", "choice", 0, 1, "the policy that keeps the shares; reserve: exactly as in the paper",
                   kHybridShareNames},
         &P::shares);
    each(ParamInfo{"sync", "choice", 0, 4, "as sync of sla-aware", kFrameSyncNames}, &P::sync);
  }
};

std::unique_ptr<Policy> MakeHybrid(const HybridParams& params);

}  // namespace weir::core
