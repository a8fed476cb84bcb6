// SPDX-License-Identifier: Apache-2.0
// Decides when a program that keeps failing may be started again. The first failures cause no delay. Each later failure
// doubles the delay, up to a bound. Pure: time is an argument.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::daemon {

class StartBackoff {
 public:
  static constexpr int kFree = 3;  // failures in a row that cause no delay
  static constexpr Duration kFirst = seconds(1);
  static constexpr Duration kMost = seconds(60);
  /// The count of failures resets when this long passes without one after the last delay.
  static constexpr Duration kForgottenAfter = seconds(300);

  void Failed(Instant now) {
    if (failures_ > 0 && now - retry_at_ > kForgottenAfter) failures_ = 0;
    failures_ = std::min(failures_ + 1, 30);
    const int doublings = failures_ - kFree - 1;
    const Duration wait = doublings < 0 ? Duration{0} : doublings >= 6 ? kMost : kFirst * (1 << doublings);
    retry_at_ = now + std::min(wait, kMost);
  }
  void Worked() { failures_ = 0; }
  /// Remaining time until the next start is allowed; zero: allowed now.
  [[nodiscard]] Duration Wait(Instant now) const {
    return failures_ > 0 ? std::max(retry_at_ - now, Duration{0}) : Duration{0};
  }
  /// The number of failures in a row.
  [[nodiscard]] int failures() const { return failures_; }

 private:
  int failures_ = 0;
  Instant retry_at_{};
};

}  // namespace weir::daemon
