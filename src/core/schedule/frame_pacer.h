// SPDX-License-Identifier: Apache-2.0
// When may a frame's present begin, so that frames end on a steady beat? One pacer per surface; pure, so that shims and
// the simulator run the same one. Page: docs/policies/sla-aware.md
//
//   end of last frame          the program draws     delay       present (predicted)   end
//        ├───────────────────────────────────────┼────────────┼─────────────────────────┤
//        └────────────────────────────── interval: the beat ────────────────────────────┘
//
// VGRIS (section 3.2) delays by: wanted latency - time of the frame so far - predicted present. Deadlines here are
// absolute: a frame that ended late is followed by somewhat shorter ones until the beat is met again, so that the mean
// rate is the promised one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/units.h"

namespace weir::core {

/// Mean of the last twenty (VGRIS, section 3.2).
class MeanOfLast20 {
 public:
  void Add(Duration value) {
    sum_ += value - values_[next_];
    values_[next_] = value;
    next_ = (next_ + 1) % values_.size();
    count_ = std::min(count_ + 1, values_.size());
  }
  [[nodiscard]] Duration mean() const { return count_ == 0 ? Duration{0} : sum_ / static_cast<std::int64_t>(count_); }
  [[nodiscard]] bool empty() const { return count_ == 0; }

 private:
  std::array<Duration, 20> values_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  Duration sum_{};
};

class FramePacer {
 public:
  /// What a present should take, from its call to its return; zero before the first one.
  [[nodiscard]] Duration PredictedPresent() const { return present_.mean(); }

  /// When to call the driver's present; in the past: at once. No frame is held longer than 5/4 of `interval` (> 0)
  /// after the end of the last one, whatever was predicted.
  [[nodiscard]] Instant SubmitAt(Duration interval) const {
    if (!began_) return Instant{};
    return EndAt(interval) - PredictedPresent() - std::min(overshoot_.mean(), interval / 4);
  }
  /// The caller slept until `woke`, having meant to wake at `wanted`. How much too late sleeps end on average is
  /// allowed for in SubmitAt.
  void Slept(Instant wanted, Instant woke) {
    overshoot_.Add(std::clamp<Duration>(woke - wanted, Duration{0}, milliseconds(50)));
    slept_ = true;
  }
  /// A program that never has time to spare gains nothing from knowing how long its present takes, and loses what its
  /// driver does ahead: after kHopeless such frames in a row they are no longer synchronised.
  [[nodiscard]] bool WorthSynchronising() const { return hurried_ < kHopeless; }

  /// The present was called at `submit` and returned at `end`. `interval`: zero while nothing is paced.
  void Presented(Duration interval, Instant submit, Instant end) {
    present_.Add(std::max(end - submit, Duration{0}));
    hurried_ = std::exchange(slept_, false) ? 0 : std::min(hurried_ + 1, kHopeless);
    // The beat goes on by one interval, unless there is none yet, it is another one, or the frame missed it by far: a
    // stall of more than kForgiven intervals is not made good.
    const Instant next = beat_ + interval;
    const bool off = end - next > kForgiven * interval || next - end > interval;
    beat_ = !began_ || interval != interval_ || off ? end : next;
    interval_ = interval;
    end_ = end;
    began_ = true;
  }

 private:
  static constexpr std::int64_t kForgiven = 4;
  static constexpr int kHopeless = 20;

  [[nodiscard]] Instant EndAt(Duration interval) const {
    if (interval != interval_) return end_ + interval;
    // Back to the beat by a quarter of an interval a frame: a late frame is not followed by one of no length at all.
    return std::clamp(beat_ + interval, end_ + interval * 3 / 4, end_ + interval * 5 / 4);
  }

  MeanOfLast20 present_;
  MeanOfLast20 overshoot_;
  bool began_ = false;
  bool slept_ = false;  // this frame
  int hurried_ = 0;     // frames in a row without time to spare
  Duration interval_{};
  Instant beat_{};  // when the last frame should have ended
  Instant end_{};   // when it did
};

}  // namespace weir::core
