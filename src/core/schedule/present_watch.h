// SPDX-License-Identifier: Apache-2.0
// Finds out whether a program's present waits for something other than the device: a vertical blank, or a limit in the
// driver. Such a program is not using the device while it waits, so its agent waits for the frame's work first,
// settles, and only then calls the present. Pure, so that shims and the simulator run the same code.
//
//   gate        present: work on the device, then the wait for the blank          in flight until the present returns
//    ├──────────────────────────────┼───────────────────────────────────┤
//   gate        fence: the work     settled    present: the wait                  in flight until the work has ended
//    ├──────────────────────────────┼───────────────────────────────────┤
//
// Waiting for the work first costs nothing where the present takes longer than the work by kBlocks: the program then
// has the time to draw and to wait for its work within one interval. Where the wait turns out to be the device's after
// all (other programs' work in the driver's queue), the present that follows the fence returns at once. The watch then
// gives up, and tries again after a pause that doubles each time. Where presents have blocked for a second, it takes
// more of them to give up, and there is no pause.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "core/schedule/frame_pacer.h"

namespace weir::core {

class PresentWatch {
 public:
  /// A present blocks if it takes this much longer than the frame's work.
  static constexpr Duration kBlocks = milliseconds(1);

  /// Whether the agent should wait for the frame's work before it calls the present.
  [[nodiscard]] bool WorthFinishing() const { return finishing_; }

  /// Records a present that was called before the frame's work had ended. `gpu`: the work that became known with it.
  void Presented(Duration gpu, Duration took) {
    gpu_.Add(gpu);
    if (finishing_) return;  // the gate is open, or the context has no fences: no evidence
    pause_ = std::max(pause_ - 1, 0);
    in_a_row_ = took - gpu_.mean() >= kBlocks ? in_a_row_ + 1 : 0;
    if (in_a_row_ >= kFramesUntilSure && pause_ == 0) Turn(true);
  }
  /// Records a present that was called after the frame's work had ended.
  void PresentedFinished(Duration took) {
    in_a_row_ = took < kBlocks ? in_a_row_ + 1 : 0;
    const bool proved = ++finished_ - in_a_row_ >= kFramesUntilProved;
    if (proved) next_pause_ = kFirstPause;
    if (in_a_row_ < (proved ? kFramesUntilDisproved : kFramesUntilUnsure)) return;
    pause_ = proved ? 0 : next_pause_;
    if (!proved) next_pause_ = std::min(2 * next_pause_, kLongestPause);
    Turn(false);
  }

 private:
  static constexpr int kFramesUntilSure = 30;  // more than gpu_ remembers: a meter may know nothing of the first ones
  static constexpr int kFramesUntilUnsure = 4;
  // Presents that have blocked for a second say more than a few that do not: after the host has not run the program for
  // some intervals, nothing waits to be shown, and the next presents return at once.
  static constexpr int kFramesUntilProved = 64;
  static constexpr int kFramesUntilDisproved = 16;
  static constexpr int kFirstPause = 64;  // frames
  static constexpr int kLongestPause = 4096;

  void Turn(bool finishing) {
    finishing_ = finishing;
    in_a_row_ = finished_ = 0;
  }

  MeanOfLast20 gpu_;
  bool finishing_ = false;
  int in_a_row_ = 0;  // consecutive frames that speak for the other mode
  int finished_ = 0;  // frames that were finished first, since that mode began
  int pause_ = 0;     // frames until another try
  int next_pause_ = kFirstPause;
};

}  // namespace weir::core
