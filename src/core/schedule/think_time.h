// SPDX-License-Identifier: Apache-2.0
// How long a program takes between two frames: from the return of a present to the call of the next.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::core {

class ThinkTime {
 public:
  /// Upper bound of a recorded time. A longer one is a stall (loading, a dialogue) and is clamped.
  static constexpr Duration kMost = milliseconds(100);
  /// Frames that the mean covers.
  static constexpr int kFrames = 8;
  /// least() covers the last one to two spans of this length.
  static constexpr Duration kSpan = seconds(5);

  void Add(Instant now, Duration think) {
    think = std::clamp(think, Duration{0}, kMost);
    const int covered = std::min(++frames_, kFrames);
    mean_ = (mean_ * (covered - 1) + think) / covered;
    if (now - span_began_ >= kSpan) {
      earlier_ = now - span_began_ < 2 * kSpan ? current_ : mean_;
      current_ = mean_;
      span_began_ = now;
    }
    // The mean of the first few frames says little: programs begin with frames that do not resemble the later ones.
    if (frames_ <= kFrames) earlier_ = current_ = mean_;
    current_ = std::min(current_, mean_);
  }
  [[nodiscard]] Duration mean() const { return mean_; }
  /// The least mean of the last seconds: what the program could do undisturbed. On the embedded device other vGPUs slow
  /// down the work of a program on the CPUs, too, so the present mean may be too long.
  [[nodiscard]] Duration least() const { return std::min(earlier_, current_); }

 private:
  int frames_ = 0;
  Duration mean_{};
  Duration earlier_{}, current_{};  // the least mean of the previous span and of the present one
  Instant span_began_{};
};

}  // namespace weir::core
