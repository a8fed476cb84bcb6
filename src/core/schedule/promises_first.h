// SPDX-License-Identifier: Apache-2.0
// Reorders vGPUs that have time left: those with a promise go first. The device interleaves a frame with whatever else
// it runs, so a share of the device does not determine when the frame is done. Therefore, while a vGPU has frame
// credit, others are admitted only when the device is about to run out of work.
//
//   frame credit       frames: (time / promised interval) - (charged / cost of a frame), within bounds. For a vGPU that
//                      was sold a share, and neither a rate nor a latency: credit for kernels, with the interval
//                      cost / cap
//   on the device      (charged GPU time) - (time that has passed), at least zero
//   admission order    first, at once, the waiting vGPU with frame credit whose frame must begin soonest to be on time
//                      (least laxity first), unless a frame with credit is being drawn; then the other vGPUs with
//                      credit and those without, in the order of their allowances, while the device has less than
//                      `ahead` to do
//   starvation         a vGPU with time left that has waited for two stages of 100 ms goes before all others: where
//                      more is promised than the device has, some vGPU always has frame credit
//   giving way         a vGPU that gives way to heavier ones is not admitted before its frames are due, while others
//                      have credit
//   no frame credit    the policy's order holds, and vGPUs with time left are admitted frame by frame while the device
//                      has less than `ahead` to do: a vGPU that is behind can't keep the device full with small frames.
//                      A kernel of more than 100 ms waits for its turn, or until the device was idle for a while: it
//                      costs the vGPU that is behind much more than the gaps between its frames. No vGPU counts as
//                      starved
//   lending            where caps move, a vGPU that has used up its cap goes on up to its ceiling, by one frame or
//                      kernel of at most `lend` at a time, while the device has less than `ahead` to do. It comes after
//                      the vGPUs that have time left and as much credit. A longer frame or kernel is admitted after the
//                      device was idle for a while
#pragma once

#include <span>
#include <vector>

#include "core/schedule/policy.h"

namespace weir::core {

/// GPU time that a vGPU may still spend.
struct TimeLeft {
  Duration of_cap{};
  Duration of_ceiling{};   // beyond its cap; zero where it borrows no GPU time
  bool lent = false;       // it is admitted beyond its cap
  bool gives_way = false;  // its frames are due less often than promised (giving_way.h)
};

class PromisesFirst {
 public:
  /// `ahead`: the next vGPU is admitted when the device has less than this to do. About the time of two polls; with
  /// less, the device runs idle between polls. Zero disables reordering. `lend`: the longest frame or kernel admitted
  /// beyond a cap.
  PromisesFirst(Duration ahead, Duration lend) : ahead_(ahead), lend_(lend) {}

  /// Changes the allowances that a policy gave, and marks in `left` the vGPUs that are admitted beyond their cap.
  void Reorder(Instant now, std::span<const VgpuView> views, std::span<TimeLeft> left, std::span<Verdict> verdicts);

 private:
  struct FrameCredit {
    Duration charged{};
    double owed = 0;     // frames or kernels of credit; negative: it was served ahead of time
    bool draws = false;  // a frame that used credit is in flight
    Instant let_in{};    // when its present wait with time left began
    Instant seen{};      // time of the last decision about it
    bool open = true;    // it could begin work since the last decision, so charges since then may be on the device
  };
  struct Place {
    std::size_t index = 0;
    VgpuId id;
    bool owed = false;
    bool lent = false;       // its cap is used up, and some of its ceiling is left
    Duration start_by{};     // latest start of its next frame; set for a vGPU with credit
    Duration starved_for{};  // wait beyond the starvation limit, else zero
    double lead = 0;         // position in the policy's own order
  };

  /// Updates frame credits and the work on the device by what was charged since the last decision.
  bool Account(Instant now, std::span<const VgpuView> views);
  bool Queue(std::span<const VgpuView> views, std::span<const TimeLeft> left, std::span<const Verdict> verdicts,
             bool drawn);
  [[nodiscard]] bool MayFill(const VgpuView& view) const;
  [[nodiscard]] bool IsLent(const VgpuView& view, const TimeLeft& left) const;
  [[nodiscard]] bool IsOwed(const VgpuView& view, bool lent) const;
  [[nodiscard]] Duration StartBy(const VgpuView& view) const;
  [[nodiscard]] Duration StarvedFor(const VgpuView& view) const;

  const Duration ahead_, lend_;
  Instant last_{};
  Instant busy_until_{};  // when the work that was charged is expected to end
  Duration on_device_{};  // charged work that has not ended, by the time that has passed
  SlotStates<FrameCredit> credits_;
  std::vector<Place> queue_;
};

}  // namespace weir::core
