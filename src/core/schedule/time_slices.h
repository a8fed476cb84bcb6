// SPDX-License-Identifier: Apache-2.0
// GPU time in slices: gOver's Algorithm 2 for one vGPU. A period has `stages` stages. Each stage adds its part of the
// cap; the rest of a stage is added to the next one, and the rest of a period is lost.
//
//   stage 0:  slice = min(slice, kept) + stage·cap   ours: debt is carried over, or a 500 ms kernel at 10 % would get
//                                                    50 %. `kept`: zero, or, for a vGPU that wants the device at that
//                                                    moment, the time of one kernel, and what it has missed: its cap's
//                                                    part of the time that it waited behind kernels of others, as far
//                                                    as it has not used it since
//             slice = stage·cap                      the paper's, line 6
//   others:   slice = slice + stage·cap              line 8
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::core {

struct SliceClock {
  Duration stage{};
  std::int64_t stages = 1;  // in a period
  bool forgives = false;    // debt is forgiven at the start of a period
  /// Stages are counted from the clock's zero, so that the stages of all vGPUs of a device begin together.
  [[nodiscard]] std::int64_t StageAt(Instant now) const { return NsOf(now) / stage.count(); }
  [[nodiscard]] Instant BeginOf(std::int64_t index) const { return InstantFromNs(index * stage.count()); }
};

/// Longer kernels count as this long. It bounds what a vGPU may use at once after it has waited behind one.
inline constexpr Duration kKernelMost = seconds(10);

/// What a vGPU may carry over the end of a period.
struct Kept {
  Duration kernel{};             // one of its kernels: it is charged when it ends, and its slice fills until then
  Duration waited_behind{};      // time since the last call that it waited behind kernels of others
  Duration longest_of_others{};  // of these kernels
  bool competes = false;         // it has not stopped using the device since then; otherwise what it missed is lost
};

class TimeSlice {
 public:
  /// GPU time that may be spent at `now`, given the total charged so far. `cap` may change between calls and takes
  /// effect at the next stage.
  Duration Left(const SliceClock& clock, Instant now, Share cap, Duration used, const Kept& kept) {
    const std::int64_t stage = clock.StageAt(now);
    const Duration each = cap.Of(clock.stage);
    if (stage_ < 0) {
      left_ = each;
    } else {
      left_ -= used - used_;
      missed_ += cap.Of(kept.waited_behind);
      missed_ = kept.competes ? std::min(missed_, cap.Of(std::min(kept.longest_of_others, kKernelMost))) : Duration{0};
      const Duration while_it_runs = std::max(each * clock.stages, cap.Of(std::min(kept.kernel, kKernelMost)));
      Pass(clock, stage_, stage, each, std::max(std::min(kept.kernel, while_it_runs), missed_));
      missed_ = std::clamp(left_, Duration{0}, missed_);  // used since; or in debt: it would have waited anyhow
    }
    stage_ = stage;
    used_ = used;
    return left_;
  }

 private:
  /// Adds all stages that have begun since `from`. Whole periods that only reduce debt are added in one step.
  void Pass(const SliceClock& clock, std::int64_t from, std::int64_t to, Duration each, Duration kept) {
    const std::int64_t looked_at = 2 * clock.stages;
    if (to - from > looked_at) {
      const std::int64_t skipped = to - from - looked_at;
      if (clock.forgives || each.count() * skipped >= -left_.count())
        left_ = Duration{0};
      else
        left_ += skipped * each;
      from += skipped;
    }
    for (std::int64_t stage = from + 1; stage <= to; ++stage) {
      if (stage % clock.stages == 0) left_ = clock.forgives ? Duration{0} : std::min(left_, kept);
      left_ += each;
    }
  }

  std::int64_t stage_ = -1;
  Duration left_{};
  Duration missed_{};
  Duration used_{};
};

}  // namespace weir::core
