// SPDX-License-Identifier: Apache-2.0
// When to ask a listener again that could give no connection because this process, or the machine, is out of
// descriptors or memory. The connection stays in the listener's queue and keeps it readable: asking at once would keep
// a processor busy without end. Time is an argument.
#pragma once

#include "base/units.h"

namespace weir::platform {

class AcceptPause {
 public:
  static constexpr Duration kPause = milliseconds(100);
  static constexpr Duration kSaidAgainAfter = seconds(60);

  /// Accepting failed for lack of something. True: that is to be told.
  [[nodiscard]] bool Failed(Instant now) {
    until_ = now + kPause;
    const bool say = !said_ || now - said_at_ >= kSaidAgainAfter;
    if (say) said_at_ = now;
    said_ = true;
    return say;
  }
  /// The listener is not to be asked now.
  [[nodiscard]] bool Holds(Instant now) const { return now < until_; }

 private:
  Instant until_{}, said_at_{};
  bool said_ = false;
};

}  // namespace weir::platform
