// SPDX-License-Identifier: Apache-2.0
// Decides when a program with a drain request tries to migrate. Pure.
//
//   waiting ──drain request, and the pause is over──▶ trying ──the try has ended──▶ waiting
//
// A pause begins when a try ends, whatever its outcome. The first pause is 10 s, and each later one is twice the pause
// before it, at most 5 min. After an hour without a try it is 10 s again. Permanent drain requests therefore cause at
// most 16 tries in any hour, never two at once. Two nodes that both request a drain thus do not pass a program back and
// forth quickly.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::remote {

class MoveTimer {
 public:
  static constexpr Duration kFirstPause = seconds(10), kPauseMax = seconds(300), kForgetsAfter = seconds(3600);

  /// Returns true if a try begins now; Ended reports its end. `asked`: there is a drain request.
  bool TryAt(Instant now, bool asked) {
    if (trying_ || !asked || (tried_ && now < again_at_)) return false;
    if (tried_ && now - ended_at_ >= kForgetsAfter) pause_ = kFirstPause;
    trying_ = tried_ = true;
    return true;
  }
  void Ended(Instant now) {
    trying_ = false;
    ended_at_ = now;
    again_at_ = now + pause_;
    pause_ = std::min(2 * pause_, kPauseMax);
  }
  [[nodiscard]] bool trying() const { return trying_; }
  /// The earliest time of the next try, once one has ended.
  [[nodiscard]] Instant again_at() const { return again_at_; }

 private:
  bool trying_ = false, tried_ = false;
  Instant ended_at_{}, again_at_{};
  Duration pause_ = kFirstPause;
};

}  // namespace weir::remote
