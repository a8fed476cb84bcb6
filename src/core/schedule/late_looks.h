// SPDX-License-Identifier: Apache-2.0
// How late decisions come: a daemon on a busy host runs some milliseconds after the time that it asked for. What
// programs may submit until the next decision has to last until then, or the device idles although they wait.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/schedule/policy.h"

namespace weir::core {

class LateLooks {
 public:
  /// Upper bound of a recorded delay. A longer one is an interruption, such as a stopped daemon, and is clamped: it is
  /// no reason to expect another one.
  static constexpr Duration kMost = milliseconds(20);
  /// A recorded delay decays by half in this time.
  static constexpr Duration kHalfLife = seconds(1);

  /// A decision is made at `now`.
  void Decided(Instant now) {
    const Duration elapsed = std::max(now - decided_, Duration{0});
    late_ = Duration{static_cast<std::int64_t>(static_cast<double>(late_.count()) *
                                               std::exp2(-SecondsOf(elapsed) / SecondsOf(kHalfLife)))};
    if (asked_ != kNever) late_ = std::clamp<Duration>(now - asked_, late_, kMost);
    decided_ = now;
  }
  /// The next decision is asked for at `when`.
  void Asked(Instant when) { asked_ = when; }
  /// The longest recent delay, with older ones weighted less.
  [[nodiscard]] Duration late() const { return late_; }

 private:
  Instant decided_{};
  Instant asked_ = kNever;
  Duration late_{};
};

}  // namespace weir::core
