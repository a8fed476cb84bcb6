// SPDX-License-Identifier: Apache-2.0
// Whether the promised rates of a device add up: what each promise needs, which vGPUs give way where they need more
// than the device has, and when that is worth telling. Pure. Page: docs/promises.md
//
//   need      promised rate × GPU time of a frame, summed over the vGPU's loops; at most its cap
//   granted   heavier vGPUs have their need first; vGPUs of the same weight share what is left in proportion
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace weir::core {

/// The promise of one vGPU, in fractions of the device.
struct PromiseClaim {
  VgpuId id;
  std::size_t index = 0;  // the caller's
  std::uint32_t weight = 1;
  double need = 0;
  double least = 0;    // the caller's: what it has in any case, besides `need`
  double granted = 0;  // of `need`; set by Grant
  [[nodiscard]] bool gives_way() const { return granted < need; }
};

/// The part of the device that a rate needs.
double NeedOf(Duration interval, Duration cost, Share cap);

/// Divides `device` among the claims, which may come in any order, and sorts them: the heaviest first.
void Grant(std::span<PromiseClaim> claims, double device = 1);

/// Says when the promises of a device stop fitting and when they fit again. Costs of frames vary, so that both have to
/// hold for a while, and there is a band between them.
class FitWatch {
 public:
  static constexpr double kOver = 1.0;
  static constexpr double kFits = 0.95;
  static constexpr int kChecks = 3;
  enum class Change : std::uint8_t { kNone, kOver, kFits };

  /// `load`: the sum of all needs. To be called at equal intervals.
  Change See(double load);
  [[nodiscard]] bool fits() const { return fits_; }

 private:
  bool fits_ = true;
  int differs_ = 0;  // consecutive checks that contradict `fits_`
};

}  // namespace weir::core
