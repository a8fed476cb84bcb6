// SPDX-License-Identifier: Apache-2.0
// cap: each vGPU gets its cap's part of every period and no more, in stages; debt is carried over. cap-paper: the same
// exactly as printed in gOver, where each period forgives debt. Page: docs/policies/cap.md
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

struct CapParams {
  Duration period = seconds(1);
  std::int64_t stages = 10;
  Duration quantum = milliseconds(5);
  Duration ahead = milliseconds(2);
  Duration lend = milliseconds(3);
  bool cap_rates = false;
  bool give_way = false;

  static constexpr void Fields(auto&& each) {
    using P = CapParams;
    each(ParamInfo{"period_ms", "ms", 10, 60000, "length of a period, at whose end unused time is lost (gOver: 1 s)"},
         &P::period);
    each(ParamInfo{"stages", "stages", 1, 100,
                   "number of stages in a period, each with its part of the cap (gOver: 10)"},
         &P::stages);
    each(ParamInfo{"quantum_ms", "ms of GPU time", 0.1, 100,
                   "GPU time that all vGPUs with time left may together run ahead of the last"},
         &P::quantum);
    each(ParamInfo{"ahead_ms", "ms of GPU time", 0, 100,
                   "while a vGPU is behind its promised rate, others submit only below this load of the device; 0: by "
                   "caps alone"},
         &P::ahead);
    each(ParamInfo{"cap_rates", "switch", 0, 1,
                   "1: beside other promises a promised rate implies a cap: 1.25 times what it needs"},
         &P::cap_rates);
    each(ParamInfo{"give_way", "switch", 0, 1,
                   "1: where promised rates need more than the device has, the lightest gives way"},
         &P::give_way);
    each(ParamInfo{"lend_ms", "ms of GPU time", 0, 1000,
                   "longest frame or kernel that may exceed its cap, up to its ceiling, on a device that would be "
                   "idle"},
         &P::lend);
  }
};
struct CapPaperParams {
  Duration period = seconds(1);
  std::int64_t stages = 10;
  Duration quantum = milliseconds(1);

  static constexpr void Fields(auto&& each) {
    using P = CapPaperParams;
    each(ParamInfo{"period_ms", "ms", 10, 60000, "length of a period, at whose end debt and savings end (gOver: 1 s)"},
         &P::period);
    each(ParamInfo{"stages", "stages", 1, 100,
                   "number of stages in a period, each with its part of the cap (gOver: 10)"},
         &P::stages);
    each(ParamInfo{"quantum_ms", "ms of GPU time", 0.1, 100, "length of a turn (gVirt: about 1 ms)"}, &P::quantum);
  }
};

std::unique_ptr<Policy> MakeCap(const CapParams& params);
std::unique_ptr<Policy> MakeCapPaper(const CapPaperParams& params);

}  // namespace weir::core
