// SPDX-License-Identifier: Apache-2.0
// Predicts from recent pauses for how long after a message to expect the next one. The rule is that of KVM's halt
// polling: the window grows while the next message comes within kLongest, and one longer pause closes it.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::remote {

class AwakeWindow {
 public:
  static constexpr Duration kFirst = microseconds(10);
  /// After a pause this long, the cost of a wake-up is comparatively small.
  static constexpr Duration kLongest = microseconds(500);

  /// Zero: no message is expected soon.
  [[nodiscard]] Duration Length() const { return length_; }
  /// Records that a message came `pause` after the one before it.
  void Came(Duration pause) {
    if (pause >= kLongest)
      length_ = Duration::zero();
    else if (pause > length_)
      length_ = std::clamp(2 * length_, kFirst, kLongest);
  }

 private:
  Duration length_{};
};

}  // namespace weir::remote
