// SPDX-License-Identifier: Apache-2.0
// Decides when to accept again after accepting failed because the process or the machine had no descriptors or memory
// left. The connection stays in the listener's queue and keeps the listener readable, so that accepting again at once
// would keep a CPU busy. Pure: time is an argument.
#pragma once

#include "base/units.h"

namespace weir::platform {

class AcceptPause {
 public:
  static constexpr Duration kPause = milliseconds(100);
  static constexpr Duration kRepeatAfter = seconds(60);

  /// Records that accepting failed for lack of resources. True: the failure should be logged.
  [[nodiscard]] bool Failed(Instant now) {
    until_ = now + kPause;
    const bool say = !said_ || now - said_at_ >= kRepeatAfter;
    if (say) said_at_ = now;
    said_ = true;
    return say;
  }
  /// Whether the listener must not be asked now.
  [[nodiscard]] bool Holds(Instant now) const { return now < until_; }

 private:
  Instant until_{}, said_at_{};
  bool said_ = false;
};

}  // namespace weir::platform
