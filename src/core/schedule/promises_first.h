// SPDX-License-Identifier: Apache-2.0
// Who is owed a frame goes first, of those that have time left. A frame is drawn in turns with whatever is on the
// device at the same time, so that a share of the device says little about when it is done: while somebody is owed a
// frame, the others are let in only as the device comes to the end of what it has.
//
//   owed to each       (time / promised interval) - (charged / what its frames cost), within bounds
//   on the device      (what was charged) - (time that has passed), never below nothing
//   who goes           of those who wait the one who is owed most, at once; then the others who are owed and those who
//                      are not, in the order of their allowances, while there is less than `ahead` on the device
//   kept out           who has time left and has waited for two stages of 100 ms goes before all of these: where more
//   is
//                      promised than there is, frames are owed without end
//   a share            who was promised its cap, and no frames, is owed kernels likewise: cap · time, less what was
//                      charged. It comes after those who are owed frames, and never beside one that is drawn
//   a long one         is let in when it is done before the next frame of somebody who was promised frames is due (what
//                      drawing leaves of its interval, by half), or is asked for; a share that is owed a kernel at any
//                      moment. What is shorter than `ahead` always
//   lent               where caps move, who has nothing left of its cap is let in up to its ceiling, one frame or
//   kernel
//                      of at most `lend`, while there is less than `ahead` on the device: first who is owed
//   nobody is owed     the policy's order holds, but who has time left is let in, frame by frame, while there is less
//                      than `ahead` on the device: one that is behind with small frames can't fill it
#pragma once

#include <span>
#include <vector>

#include "core/schedule/policy.h"

namespace weir::core {

/// What a vGPU may still spend.
struct TimeLeft {
  Duration of_cap{};
  Duration of_ceiling{};  // beyond its cap; nothing where nothing is lent to it
  bool lent = false;      // it is let in beyond its cap
};

class PromisesFirst {
 public:
  /// `ahead`: how much the device has to do when the next one is let in: about two looks, or it has nothing to do
  /// between them. Zero: nobody goes first. `lend`: the longest frame that is let in beyond a cap.
  PromisesFirst(Duration ahead, Duration lend) : ahead_(ahead), lend_(lend) {}

  /// Changes the allowances that a policy gave, and says in `left` who is let in beyond its cap.
  void Reorder(Instant now, std::span<const VgpuView> views, std::span<TimeLeft> left, std::span<Verdict> verdicts);

 private:
  struct Creditor {
    Duration charged{};
    double frames = 0;   // owed to it; negative: it has drawn before its time
    bool draws = false;  // one that was owed
    Instant let_in{};    // since then it waits with time left
    bool open = true;    // not held when last seen: what it was charged since may be on the device
  };
  struct Place {
    std::size_t index = 0;
    double owed = 0;
    Duration kept_out{};  // when that is too long; else zero
    bool lent = false;    // it has nothing left of its cap, and something of its ceiling
  };

  struct Awaited {
    std::size_t index = ~std::size_t{0};
    Duration within = Duration::max();
  };

  bool Account(Instant now, std::span<const VgpuView> views);
  double OwedTo(const VgpuView& view);
  Duration KeptOut(const VgpuView& view);
  void Await(std::span<const VgpuView> views, std::span<const TimeLeft> left);

  const Duration ahead_, lend_;
  Instant last_{};
  Duration on_device_{};
  SlotStates<Creditor> creditors_;
  std::vector<Place> queue_;
  Awaited soonest_, next_;
};

}  // namespace weir::core
