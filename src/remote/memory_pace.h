// SPDX-License-Identifier: Apache-2.0
// How often shared memory is looked at, which tells nobody when something has come. Reads no clock.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::remote {

/// Where nothing has come for a time t the next look is t / 4 later, but 20 us at least and 1 ms at most (10 ms while
/// there are no streams). So the looks of a pause grow with its logarithm until they come at the slowest rate.
class MemoryPace {
 public:
  static constexpr Duration kRestMin = microseconds(20);
  static constexpr Duration kRestMax = milliseconds(1);
  static constexpr Duration kRestMaxWithoutStreams = milliseconds(10);

  /// Bytes have come or gone.
  void Moved(Instant now) { moved_ = now; }
  /// How long not to look now.
  [[nodiscard]] Duration Rest(Instant now, bool streams) const {
    const Duration quarter = (now - moved_) / 4;
    return std::clamp(quarter, kRestMin, streams ? kRestMax : kRestMaxWithoutStreams);
  }

 private:
  Instant moved_{};
};

}  // namespace weir::remote
