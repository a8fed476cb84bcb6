// SPDX-License-Identifier: Apache-2.0
// The node's clock: the only place where an Instant is made from real time.
#pragma once

#include <time.h>

#include "base/units.h"

namespace weir::platform {

inline std::int64_t NowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
inline Instant Now() { return InstantFromNs(NowNs()); }

/// Accurate to a few milliseconds at a third of the cost; for checks such as "is an attempt due?".
inline std::int64_t CoarseNowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace weir::platform
