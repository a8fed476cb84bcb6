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
//   nobody is owed     the policy's order holds, but who has time left is let in, frame by frame, while there is less
//                      than `ahead` on the device: one that is behind with small frames can't fill it
#pragma once

#include <span>
#include <vector>

#include "core/schedule/policy.h"

namespace weir::core {

class PromisesFirst {
 public:
  /// `ahead`: how much the device has to do when the next one is let in: about two looks, or it has nothing to do
  /// between them. Zero: nobody goes first.
  explicit PromisesFirst(Duration ahead) : ahead_(ahead) {}

  /// Changes the allowances that a policy gave. `left`: what each may still spend, nothing where it is held.
  void Reorder(Instant now, std::span<const VgpuView> views, std::span<const Duration> left,
               std::span<Verdict> verdicts);

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
  };

  bool Account(Instant now, std::span<const VgpuView> views);
  double OwedTo(const VgpuView& view);
  Duration KeptOut(const VgpuView& view);

  const Duration ahead_;
  Instant last_{};
  Duration on_device_{};
  SlotStates<Creditor> creditors_;
  std::vector<Place> queue_;
};

}  // namespace weir::core
