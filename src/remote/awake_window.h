// SPDX-License-Identifier: Apache-2.0
// For how long after something has passed more of it is to be expected soon, by how it came lately; the rule is that of
// KVM's halt polling: it grows while the next comes within the longest, and one long pause ends it.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::remote {

class AwakeWindow {
 public:
  static constexpr Duration kFirst = microseconds(10);
  /// After pauses as long as this a wake-up costs little in comparison.
  static constexpr Duration kLongest = microseconds(500);

  /// Zero: nothing is to be expected.
  [[nodiscard]] Duration Length() const { return length_; }
  /// The next came after `pause`.
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
