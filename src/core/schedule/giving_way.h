// SPDX-License-Identifier: Apache-2.0
// The order in which vGPUs give way where their promised rates need more than the device has: the lightest first, the
// same under every policy that keeps rates. The frames of a vGPU that gives way are due less often than promised. Page:
// docs/promises.md
//
//   claim     GPU time of its frames × min(promised rate, 1.5 × rate of the last second + 2)     at most its cap
//             This is what the vGPU is about to use: a program that by itself draws less than promised takes little
//             from others. A vGPU that gives way, and draws as often as it may, claims all that was promised
//   overload  claims together > the device
//   granted   of 95 % of the device: a tenth of what each was promised, then the claims by weight
//             (oversubscribe/promised_load.h). Where all weights are the same, no vGPU gives way
//   interval  GPU time of its frames / granted, while that is longer than the promised one
#pragma once

#include <span>
#include <vector>

#include "core/oversubscribe/promised_load.h"
#include "core/schedule/policy.h"

namespace weir::core {

class GivingWay {
 public:
  /// Interval at which claims are computed. They follow rates of the last second, so a shorter one would gain nothing.
  static constexpr Duration kEvery = milliseconds(50);

  /// `preset`: the interval of a vGPU that draws and has no promise; it gives way before all others. Zero: none.
  /// Without `wanted` no vGPU gives way.
  explicit GivingWay(Duration preset, bool wanted = true) : preset_(preset), wanted_(wanted) {}

  /// To be called at each decision. Does not allocate once as many views have been seen.
  void See(Instant now, std::span<const VgpuView> views);
  /// Whether a vGPU gives way, so that another decision is needed within kEvery.
  [[nodiscard]] bool any() const { return any_; }
  /// The interval at which frames of the vGPU are due now; zero: it has no rate. See was called with this view.
  [[nodiscard]] Duration IntervalOf(const VgpuView& view) const;

 private:
  struct Part {
    Duration longer{};    // interval of its frames while it gives way; zero: it does not
    bool claims = false;  // it took part in the last division
  };
  /// The promised interval, or the preset one; zero: none.
  [[nodiscard]] Duration Promised(const VgpuView& view) const;
  /// Computes `claims_` and their sums.
  void Claim(Instant now, std::span<const VgpuView> views);
  /// Divides the device among the claims, and decides which vGPUs give way.
  void Divide(std::span<const VgpuView> views);

  const Duration preset_;
  const bool wanted_;
  Instant next_{};
  bool any_ = false;
  double claimed_ = 0, least_ = 0;  // sums of the claims and of their least parts
  std::vector<PromiseClaim> claims_;
  SlotStates<Part> parts_;
};

}  // namespace weir::core
