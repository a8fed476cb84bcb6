// SPDX-License-Identifier: Apache-2.0
// Decides when an executor has been without a gate for too long. It serves clients once it has attached, and goes on
// without a gate when the attachment ends: its use would have no cap and be charged to nobody. An honest executor
// attaches again within seconds. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/units.h"

namespace weir::daemon {

class GateAbsence {
 public:
  /// Longer than the pause between two attempts of an agent to attach, which is 5 s at most.
  static constexpr Duration kMost = seconds(10);
  /// Counted at most between two looks, so that the time for which the daemon itself stood still does not count.
  static constexpr Duration kStepMax = milliseconds(200);

  /// `run`: the number of the executor that runs; 0: none. `attached`: whether it is attached. True: it is to be ended.
  bool Look(Instant now, std::uint64_t run, bool attached) {
    const Duration step = std::clamp(now - std::exchange(looked_, now), Duration{0}, kStepMax);
    if (run != std::exchange(run_, run)) was_attached_ = false;
    if (attached && run != 0) was_attached_ = true;
    if (attached || !was_attached_) absent_ = Duration{0};
    if (attached || !was_attached_ || run == 0) return false;
    absent_ += step;
    if (absent_ <= kMost) return false;
    absent_ = Duration{0};
    return true;
  }
  /// Whether the executor has been attached, so that Look is to be called regularly.
  [[nodiscard]] bool counts() const { return run_ != 0 && was_attached_; }

 private:
  Instant looked_{};
  std::uint64_t run_ = 0;
  bool was_attached_ = false;  // before that, it serves nobody, and its driver may take long to start
  Duration absent_{0};         // since it was attached
};

}  // namespace weir::daemon
