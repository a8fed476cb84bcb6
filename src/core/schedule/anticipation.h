// SPDX-License-Identifier: Apache-2.0
// Keeping the device free for a vGPU between two of its frames. Frames can't be preempted: a long frame of another vGPU
// that begins in the gap costs much more than the gap. So a policy waits for the next frame of a vGPU that has a claim,
// for about as long as that frame should take to come. It waits only if the vGPU could use its share at all.
#pragma once

#include <algorithm>

#include "core/schedule/policy.h"

namespace weir::core {

/// A program that alone keeps the device busy for this part of the time leaves little to others in its gaps.
inline constexpr double kHoldDuty = 0.7;

struct Anticipation {
  Duration grace{};              // longest wait; zero: no vGPU is waited for
  double hold_duty = kHoldDuty;  // use of the device alone from which a vGPU is always waited for
  Duration tick{};               // between two decisions

  /// Whether the frames of the vGPU, alone, would keep the device busy for `share` of the time, or for `hold_duty` if
  /// that is less. The frames of a game with its own limit of 60 frames/s could not. Presents that block are such a
  /// limit, too: the next frame comes after a vertical blank.
  [[nodiscard]] bool CouldUse(const VgpuView& vgpu, double share) const {
    if (vgpu.blocks) return false;
    const double alone = SecondsOf(vgpu.frame_gpu + vgpu.least_think);
    return alone > 0 && SecondsOf(vgpu.frame_gpu) / alone >= std::min(share, hold_duty);
  }
  /// Whether to wait for the next frame of the vGPU. It is waited for during twice the usual time until it comes.
  /// Activity is seen at decisions only: one tick may pass before the program is seen to be idle, and another one until
  /// the next decision. Without these ticks, a program that thinks for less than a tick would lose its claim whenever a
  /// decision finds it between two frames.
  [[nodiscard]] bool Expects(const VgpuView& vgpu, const PolicyInput& input, double share) const {
    const Duration usual = 2 * (vgpu.frame_think + tick) + input.late;
    return input.now - vgpu.last_active < std::min(grace, usual) && CouldUse(vgpu, share);
  }
  /// Whether others keep the device's queue short for the vGPU, since it could not use its share: its next frame comes
  /// behind all work that is queued by then. A program that waits for vertical blanks would miss its blank behind a
  /// long queue.
  [[nodiscard]] bool ComesSeldom(const VgpuView& vgpu, double share) const {
    return vgpu.attached && !vgpu.held && !CouldUse(vgpu, share);
  }
  /// How much work may be queued now, so that the device has work until the next decision and little beyond. A charge
  /// is seen up to one tick after the work has begun. The longest recent delay counts up to two ticks: after one long
  /// delay, programs would miss their blanks for a second, which costs more than a device that idles until a late
  /// decision.
  [[nodiscard]] Duration Room(Duration work_left, const PolicyInput& input) const {
    return std::max(2 * tick + std::min(input.late, 2 * tick) + kLookSpacing - work_left, Duration{0});
  }
  /// Whether the vGPU has competed until now without a pause of `grace`, or of two ticks where these are longer.
  [[nodiscard]] bool Persists(const VgpuView& vgpu, const PolicyInput& input, double share) const {
    if (vgpu.waiting > 0 || vgpu.in_flight > 0) return true;
    const Duration pause = grace > Duration{0} ? std::max(grace, 2 * tick + input.late) : Duration{0};
    return input.now - vgpu.last_active < pause && CouldUse(vgpu, share);
  }
};

}  // namespace weir::core
