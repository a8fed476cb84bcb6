// SPDX-License-Identifier: Apache-2.0
// How often shared memory is polled, which has no notification of new data. Pure: reads no clock.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::remote {

/// When no byte has moved for a time t, the next poll follows after t / 4, but at least 20 us and at most 1 ms (10 ms
/// while there are no streams). The number of polls in a pause therefore grows with the logarithm of its length until
/// the slowest rate is reached.
class MemoryPace {
 public:
  static constexpr Duration kRestMin = microseconds(20);
  static constexpr Duration kRestMax = milliseconds(1);
  static constexpr Duration kRestMaxWithoutStreams = milliseconds(10);

  /// Records that bytes were read or written.
  void Moved(Instant now) { moved_ = now; }
  /// The time until the next poll.
  [[nodiscard]] Duration Rest(Instant now, bool streams) const {
    const Duration quarter = (now - moved_) / 4;
    return std::clamp(quarter, kRestMin, streams ? kRestMax : kRestMaxWithoutStreams);
  }

 private:
  Instant moved_{};
};

}  // namespace weir::remote
