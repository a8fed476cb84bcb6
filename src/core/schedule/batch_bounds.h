// SPDX-License-Identifier: Apache-2.0
// Decides which calls of a program that never presents end a batch, that is, pass the gate. Such a program ends its
// work with flushes, waits and readbacks, from one each second to hundreds of thousands. Pure, so that a test needs no
// sleep.
//
//   call:      flush  flush  flush  │  readback  │  flush  flush …
//              └──── a batch ────┘  └─ a batch ─┘
//                                passage       passage
//
// A call ends the batch when the batch may hold kLeast of GPU time:
//   - kLeast of time has passed since the last passage was admitted, so that the device may have worked as long, or
//   - the calls of the batch, at what a call has cost lately, are kLeast of GPU time, or
//   - kCallsMost calls were made (dispatches of compute shaders: kDispatchesMost), whatever they cost.
// A launch of CUDA ends work too, but there are up to hundreds of thousands a second, and a passage takes longer than a
// launch. Their bounds are wider.
// Calls that end no batch lose no charge: their work is charged at the next passage.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace weir::core {

class BatchBounds {
 public:
  static constexpr Duration kLeast = microseconds(200);
  static constexpr int kCallsMost = 16;
  /// A dispatch does not end work. So that a program that makes only dispatches passes the gate at all, one passes
  /// after this time or after kDispatchesMost.
  static constexpr Duration kDispatchesFor = milliseconds(2);
  static constexpr int kDispatchesMost = 64;

  static constexpr Duration kLaunchesLeast = microseconds(500);
  static constexpr int kLaunchesMost = 128;

  enum class Call { kEndsWork, kDispatches, kLaunches };

  /// Counts a call. True: it ends the batch, and Passed and Settled follow.
  bool Ends(Instant now, Call call) {
    const bool dispatches = call == Call::kDispatches, launches = call == Call::kLaunches;
    const Duration least = launches ? kLaunchesLeast : kLeast;
    ++(dispatches ? dispatches_ : calls_);
    if (!known_) return true;
    if (now - passed_ >= (dispatches ? kDispatchesFor : least)) return true;
    if (dispatches) return dispatches_ >= kDispatchesMost;
    return calls_ >= (launches ? kLaunchesMost : kCallsMost) || calls_ * cost_ >= least;
  }
  /// The gate has admitted the call that ends the batch.
  void Passed(Instant now) {
    passed_ = now;
    settling_ = std::max(calls_, 1);
    calls_ = dispatches_ = 0;
  }
  /// `gpu`: GPU time that became known with that batch. It may be that of an earlier batch, so a mean is used.
  void Settled(Duration gpu) {
    const Duration each = std::max(gpu, Duration{0}) / settling_;
    cost_ = known_ ? (cost_ * 3 + each) / 4 : each;
    known_ = true;
  }
  /// Mean GPU time of a call of the last batches.
  [[nodiscard]] Duration cost() const { return cost_; }

 private:
  Instant passed_{};
  Duration cost_{};
  int calls_ = 0;
  int dispatches_ = 0;
  int settling_ = 1;  // calls of the batch that passed last
  bool known_ = false;
};

}  // namespace weir::core
