// SPDX-License-Identifier: Apache-2.0
// When a program that its node asks to leave tries to move. Pure.
//
//   waiting ──asked, and the pause is over──▶ trying ──it has ended──▶ waiting
//
// A pause begins when a try has ended, whatever came of it: 10 s, then twice the last one, at most 5 min; and 10 s
// again when nothing was tried for an hour. So nodes that ask all the time cost at most 16 tries in any hour, and never
// two at once; and two nodes that both ask don't throw a program to and fro.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::remote {

class MoveTimer {
 public:
  static constexpr Duration kFirstPause = seconds(10), kPauseMax = seconds(300), kForgetsAfter = seconds(3600);

  /// True: it is to be tried now, and Ended says when that is over. `asked`: that is wanted.
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
  /// Not before then, once one has ended.
  [[nodiscard]] Instant again_at() const { return again_at_; }

 private:
  bool trying_ = false, tried_ = false;
  Instant ended_at_{}, again_at_{};
  Duration pause_ = kFirstPause;
};

}  // namespace weir::remote
