// SPDX-License-Identifier: Apache-2.0
// Who was promised something goes first, of those that have time left. A frame is drawn in turns with whatever is on
// the device at the same time, so that a share of the device says little about when it is done: while somebody is owed
// something, the others are let in only as the device comes to the end of what it has.
//
//   owed to each       frames: (time / promised interval) - (charged / what its frames cost), within bounds; to who was
//                      sold a share and promised no frames, kernels likewise: their interval is cost / cap
//   on the device      (what was charged) - (time that has passed), never below nothing
//   who goes           of those who wait and are owed something the one that must begin soonest to be done when it is
//                      due (least laxity first), at once, but beside no frame that was owed and is drawn; then the
//                      others who are owed and those who are not, in the order of their allowances, while there is less
//                      than `ahead` on the device
//   kept out           who has time left and has waited for two stages of 100 ms goes before all of these: where more
//                      is promised than there is, frames are owed without end
//   nobody is owed     the policy's order holds, but who has time left is let in, frame by frame, while there is less
//                      than `ahead` on the device: one that is behind with small frames can't fill it
//   lent               where caps move, who has nothing left of its cap goes up to its ceiling, after those who are
//   owed
//                      as much and have time left, one frame or kernel of at most `lend` at a time, while there is less
//                      than `ahead` on the device. A longer one when the device has been idle for a while
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
  /// between them. Zero: nobody goes first. `lend`: the longest frame or kernel that is let in beyond a cap.
  PromisesFirst(Duration ahead, Duration lend) : ahead_(ahead), lend_(lend) {}

  /// Changes the allowances that a policy gave, and says in `left` who is let in beyond its cap.
  void Reorder(Instant now, std::span<const VgpuView> views, std::span<TimeLeft> left, std::span<Verdict> verdicts);

 private:
  struct Creditor {
    Duration charged{};
    double owed = 0;     // frames or kernels; negative: it has had some before their time
    bool draws = false;  // a frame that was owed
    Instant let_in{};    // since then it waits with time left
    bool open = true;    // not held when last seen: what it was charged since may be on the device
  };
  struct Place {
    std::size_t index = 0;
    VgpuId id;
    bool owed = false;
    bool lent = false;    // it has nothing left of its cap, and something of its ceiling
    Duration start_by{};  // of who is owed something
    Duration kept_out{};  // when that is too long; else zero
    double lead = 0;      // in the policy's own order
  };

  bool Account(Instant now, std::span<const VgpuView> views);
  void Queue(std::span<const VgpuView> views, std::span<const TimeLeft> left, std::span<const Verdict> verdicts);
  [[nodiscard]] bool IsLent(const VgpuView& view, const TimeLeft& left) const;
  [[nodiscard]] bool IsOwed(const VgpuView& view, bool lent) const;
  [[nodiscard]] Duration StartBy(const VgpuView& view) const;
  [[nodiscard]] Duration KeptOut(const VgpuView& view) const;

  const Duration ahead_, lend_;
  Instant last_{};
  Instant busy_until_{};
  Duration on_device_{};
  SlotStates<Creditor> creditors_;
  std::vector<Place> queue_;
};

}  // namespace weir::core
