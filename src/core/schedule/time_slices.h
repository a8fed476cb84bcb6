// SPDX-License-Identifier: Apache-2.0
// GPU time in slices: gOver's Algorithm 2 for one vGPU. A period has `stages` stages. Each stage adds its part of the
// cap; the rest of a stage is added to the next one, and the rest of a period is lost.
//
//   stage 0:  slice = min(slice, kept) + stage·cap   ours: debt is carried over, or a 500 ms kernel at 10 % would get
//                                                    50 %. `kept` is zero for a vGPU that does not want the device at
//                                                    that moment. Otherwise it is the greater of the time of one
//                                                    kernel, and of what the vGPU has missed and not used since. It
//                                                    has missed its cap's part of the time that it waited behind
//                                                    kernels of others
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

/// Longer kernels count as this long. This bounds what a vGPU may use at once after it has waited behind a kernel.
inline constexpr Duration kKernelMost = seconds(10);

/// What a vGPU may carry over the end of a period.
struct Kept {
  Duration kernel{};             // one of its kernels: it is charged when it ends, and its slice fills until then
  Duration waited_behind{};      // time since the last call that it waited behind kernels of others
  Duration longest_of_others{};  // the longest of these kernels
  bool competes = false;         // it still uses the device; once it stops, what it missed is lost
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
      missed_ = std::clamp(left_, Duration{0}, missed_);  // without what was used; nothing if it is in debt
    }
    stage_ = stage;
    used_ = used;
    return left_;
  }

 private:
  /// Adds the stages after `from` up to `to`. Those before the last two periods are added in one step: what is left of
  /// them beyond `kept` is lost at the end of a period, one of which is still to come.
  void Pass(const SliceClock& clock, std::int64_t from, std::int64_t to, Duration each, Duration kept) {
    const std::int64_t skipped = to - from - 2 * clock.stages;
    if (skipped > 0) {
      left_ = clock.forgives ? Duration{0} : std::min(left_ + skipped * each, kept);
      from += skipped;
    }
    for (std::int64_t stage = from + 1; stage <= to; ++stage) {
      if (stage % clock.stages == 0) left_ = clock.forgives ? Duration{0} : std::min(left_, kept);
      left_ += each;
    }
  }

  std::int64_t stage_ = -1;  // of the last call; -1: there was none
  Duration left_{};
  Duration missed_{};  // the part of `left_` that it missed behind kernels of others
  Duration used_{};    // total charge at the last call
};

}  // namespace weir::core
