// SPDX-License-Identifier: Apache-2.0
// How much work the device still has, as far as the gates tell: what was charged, less the time that has passed. The
// driver's queue is not visible.
//
//   charged       a frame's predicted GPU time as it passes its gate, and the rest once its GPU time is known
//   time passes   a device that has work does one millisecond of it in a millisecond
//   bounds        at least zero; at most what is reserved for work whose end is not known, and kMost
//
// Charges are exact in the end, so errors of predictions do not add up. An error from the time before, when a program's
// first frames were charged less than they took, would remain for as long as the device is busy. The frame of a program
// that waits for vertical blanks corrects the error: it is in flight until its work has ended, behind all work that was
// queued before. One frame corrects at most 0.3 ms, since a decision does not tell which of several frames came first.
#pragma once

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "core/schedule/policy.h"

namespace weir::core {

class QueuedWork {
 public:
  /// Upper bound of left(), so that a tenant with false charges keeps the device from others for no longer.
  static constexpr Duration kMost = milliseconds(100);

  /// The last frame of a vGPU whose end tells how much work there was.
  struct Probe {
    bool in_flight = false;
    Instant began{};
    Duration left_then{};
  };

  /// To be called at each decision, before Add. Returns the time since the last decision.
  Duration Pass(Instant now) {
    const Duration time = std::max(now - std::exchange(last_, now), Duration{0});
    left_ = std::max(left() - time, Duration{0});
    reserved_ = Duration{0};
    return time;
  }
  /// Adds what the vGPU was charged since the last decision.
  void Add(const VgpuView& vgpu, Duration charged, Probe& probe) {
    reserved_ += vgpu.reserved;
    if (vgpu.in_flight == 0 && std::exchange(probe.in_flight, false)) {
      const Duration error = (last_ - probe.began) - probe.left_then;
      left_ = std::max(left_ + std::clamp(error, -kCorrectionMost, kCorrectionMost), Duration{0});
    }
    left_ = std::clamp(left_ + charged, Duration{0}, kMost);
    if (charged > Duration{0})
      probe = {.in_flight = vgpu.blocks && vgpu.in_flight > 0, .began = last_, .left_then = left_};
  }
  [[nodiscard]] Duration left() const { return std::min(left_, reserved_); }

 private:
  static constexpr Duration kCorrectionMost = microseconds(300);

  Instant last_{};
  Duration left_{};
  Duration reserved_{};  // of all vGPUs that were added since Pass
};

}  // namespace weir::core
