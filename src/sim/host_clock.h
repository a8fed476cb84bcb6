// SPDX-License-Identifier: Apache-2.0
// A host's clock: it is ahead of virtual time by an offset, and runs faster or slower by some millionths.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace weir::sim {

class HostClock {
 public:
  /// `drift_ppm` above -1,000,000: a clock never stands still or runs backwards.
  constexpr HostClock(Duration offset, std::int64_t drift_ppm) : offset_(offset), drift_ppm_(drift_ppm) {}

  /// The clock's reading at a virtual time.
  [[nodiscard]] constexpr Instant Read(Instant at) const {
    const std::int64_t ns = NsOf(at);
    // Computed in two parts, so that times of years do not overflow.
    const std::int64_t drifted = ns / kMillion * drift_ppm_ + ns % kMillion * drift_ppm_ / kMillion;
    return InstantFromNs(ns + drifted + offset_.count());
  }
  /// How much virtual time a timer takes that the host sets for `duration`, rounded up.
  [[nodiscard]] constexpr Duration Takes(Duration duration) const {
    const std::int64_t rate = kMillion + drift_ppm_;
    const std::int64_t ns = duration.count();
    return Duration{ns / rate * kMillion + (ns % rate * kMillion + rate - 1) / rate};
  }

 private:
  static constexpr std::int64_t kMillion = 1'000'000;
  Duration offset_;
  std::int64_t drift_ppm_;
};

}  // namespace weir::sim
