// SPDX-License-Identifier: Apache-2.0
// GPU time in slices: gOver's Algorithm 2 for one vGPU. A period has `stages` stages; each brings the cap's part of a
// stage, what a stage leaves is added to the next, and what the period leaves is lost.
//
//   stage 0:  slice = min(slice, kept) + stage·cap   ours: debt is carried, or a 500 ms kernel at 10 % would get 50 %;
//                                                    kept: nothing, or, for who wants the device at that moment, what
//                                                    a kernel takes: it may have had to let a longer one pass
//             slice = stage·cap                      the paper's, line 6
//   others:   slice = slice + stage·cap              line 8
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::core {

struct SliceClock {
  Duration stage{};
  std::int64_t stages = 1;  // of a period
  bool forgives = false;    // debt, at a period's beginning
  /// Stages are counted from the clock's zero, so that all vGPUs of a device begin theirs together.
  [[nodiscard]] std::int64_t StageAt(Instant now) const { return NsOf(now) / stage.count(); }
  [[nodiscard]] Instant BeginOf(std::int64_t index) const { return InstantFromNs(index * stage.count()); }
};

class TimeSlice {
 public:
  /// What may be spent at `now`, given all that was charged so far. `cap` may change between calls and holds from the
  /// next stage on. `kept`: of what a period leaves, at most the cap's part of one.
  Duration Left(const SliceClock& clock, Instant now, Share cap, Duration used, Duration kept) {
    const std::int64_t stage = clock.StageAt(now);
    const Duration each = cap.Of(clock.stage);
    if (stage_ < 0) {
      left_ = each;
    } else {
      left_ -= used - used_;
      Pass(clock, stage_, stage, each, std::min(kept, each * clock.stages));
    }
    stage_ = stage;
    used_ = used;
    return left_;
  }

 private:
  /// All stages that have begun since, at once: those of whole periods that change nothing but debt in one step.
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
  Duration used_{};
};

}  // namespace weir::core
