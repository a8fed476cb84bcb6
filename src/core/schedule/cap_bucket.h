// SPDX-License-Identifier: Apache-2.0
// Enforces the strict cap of one vGPU under any policy: a bucket of GPU time that fills at `cap` of the device's
// capacity and carries debt. It limits what a policy grants.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::core {

/// Unused time accumulates for at most this long (gOver's stage).
inline constexpr Duration kCapBurst = milliseconds(100);

class CapBucket {
 public:
  /// GPU time that may be spent at `now`, given the total charged so far. `cap` may change between calls.
  Duration Level(Instant now, Share cap, Duration used) {
    if (last_ == Instant{}) {
      level_ = cap.Of(kCapBurst);
    } else {
      const Duration elapsed = std::min<Duration>(now - last_, seconds(3600));
      level_ = std::min(cap.Of(kCapBurst), level_ - (used - used_) + cap.Of(elapsed));
    }
    last_ = now;
    used_ = used;
    return level_;
  }

 private:
  Instant last_{};
  Duration level_{};
  Duration used_{};
};

}  // namespace weir::core
