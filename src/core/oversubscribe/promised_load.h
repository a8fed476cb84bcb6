// SPDX-License-Identifier: Apache-2.0
// Whether the promised rates of a device fit it: what each promise needs, which vGPUs give way where the promises need
// more than the device has, and when that is reported. Pure. Page: docs/promises.md
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
  std::size_t index = 0;  // for the caller
  std::uint32_t weight = 1;
  double need = 0;
  double least = 0;    // for the caller: what the vGPU has in any case, in addition to `need`
  double granted = 0;  // of `need`; set by Grant
  [[nodiscard]] bool gives_way() const { return granted < need; }
};

/// The part of the device that a rate needs, at most `cap`. `cost`: GPU time in each interval.
double NeedOf(Duration interval, Duration cost, Share cap);

/// Divides `device` among the claims, which may come in any order, and sorts them: the heaviest first.
void Grant(std::span<PromiseClaim> claims, double device = 1);

/// Reports when the promises of a device stop fitting, and when they fit again. Costs of frames vary. Therefore each
/// state has to hold for kChecks, and no change is reported while the load is between kFits and kOver.
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
