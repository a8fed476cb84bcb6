// SPDX-License-Identifier: Apache-2.0
// Keeping the device free for a vGPU between two of its frames. Frames can't be preempted: another's long frame that
// begins in the gap costs the vGPU much more than the gap. So a policy waits for a vGPU that has a claim, for about as
// long as its next frame should take to come, if the vGPU could use its share at all.
#pragma once

#include <algorithm>

#include "core/schedule/policy.h"

namespace weir::core {

/// A program this close to keeping the device busy by itself leaves little in its gaps.
inline constexpr double kHoldDuty = 0.7;

struct Anticipation {
  Duration grace{};              // longest wait; zero: nobody is waited for
  double hold_duty = kHoldDuty;  // use of the device alone from which a vGPU is always waited for
  Duration tick{};               // between two decisions

  /// Whether its frames, alone, would keep the device busy for `share` of the time, or for `hold_duty`. A game with its
  /// own limit of 60 frames/s could not. Presents that block are such a limit: the time until the next frame is the
  /// time until a vertical blank.
  [[nodiscard]] bool CouldUse(const VgpuView& vgpu, double share) const {
    if (vgpu.blocks) return false;
    const double alone = SecondsOf(vgpu.frame_gpu + vgpu.least_think);
    return alone > 0 && SecondsOf(vgpu.frame_gpu) / alone >= std::min(share, hold_duty);
  }
  /// Whether its next frame is worth waiting for: for twice the usual time until it comes. Activity is seen at
  /// decisions only, so one tick may have passed before the program was seen to be idle, and another one passes until
  /// the next decision. Without them, a program that thinks for less than a tick would lose its claim whenever a
  /// decision finds it between two frames.
  [[nodiscard]] bool Expects(const VgpuView& vgpu, const PolicyInput& input, double share) const {
    const Duration usual = 2 * (vgpu.frame_think + tick) + input.late;
    return input.now - vgpu.last_active < std::min(grace, usual) && CouldUse(vgpu, share);
  }
  /// Whether it has competed without a longer pause.
  [[nodiscard]] bool Persists(const VgpuView& vgpu, const PolicyInput& input, double share) const {
    if (vgpu.waiting > 0 || vgpu.in_flight > 0) return true;
    const Duration pause = grace > Duration{0} ? std::max(grace, 2 * tick + input.late) : Duration{0};
    return input.now - vgpu.last_active < pause && CouldUse(vgpu, share);
  }
};

}  // namespace weir::core
