// SPDX-License-Identifier: Apache-2.0
// The cap that a promised rate implies, for a vGPU without a cap of its own (gOver, section 3.3: the initial cap
// follows from the promised rate). It keeps a vGPU that draws more than promised, or whose cost is not known yet, from
// taking the device from others' promises. Pure. Page: docs/promises.md
//
//   cost not known   what the needs of all other running promises leave of the device
//   cost known       1.25 × need, at most what the others leave: heavier vGPUs leave what they do not need, vGPUs of
//                    the same weight what they were not granted. A vGPU keeps what it was granted as long as it needs
//                    it, and vGPUs of the same weight get the rest; of two whose needs grow, the older one goes first
//   in any case      at least a tenth of the device; all of it where no other promise runs
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/units.h"

namespace weir::core {

/// A running promise, in fractions of the device.
struct RateClaim {
  VgpuId id;
  std::size_t index = 0;  // for the caller
  std::uint32_t weight = 1;
  double need = 0;       // of the promised rate; zero: its cost is not known
  bool own_cap = false;  // its settings limit it, and `need` does not exceed that limit
  double granted = 0;    // part of `need` within its cap; in: by the last call, out: by this one
  double cap = 1;        // set by CapRates
};

/// How often caps follow costs. Frames are read as often.
inline constexpr Duration kRateCapsEvery = milliseconds(50);

/// The need that counts. It follows a growing need at once and a falling one within seconds, so that a vGPU does not
/// lose what it was granted because of a few cheap frames. To be called every kRateCapsEvery.
constexpr double NeedSince(double before, double now) {
  constexpr double kFallsTo = 0.995;  // 10 % a second
  return now > before * kFallsTo ? now : before * kFallsTo;
}

/// Sets the cap of each claim without a cap of its own. Claims may come in any order, and are sorted: the heaviest
/// first, then the oldest.
void CapRates(std::span<RateClaim> claims);

}  // namespace weir::core
