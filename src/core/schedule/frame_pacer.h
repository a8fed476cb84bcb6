// SPDX-License-Identifier: Apache-2.0
// Computes when a frame's present may begin, so that frames end at regular intervals. One pacer per surface; pure, so
// that shims and the simulator run the same code. Page: docs/policies/sla-aware.md
//
//   end of last frame          the program draws     delay       present (predicted)   end
//        ├───────────────────────────────────────┼────────────┼─────────────────────────┤
//        └────────────────────────────── interval: the beat ────────────────────────────┘
//
// With a late frame start the program is delayed before it draws, so that it reads its input shortly before the frame
// is shown. What is left is still delayed before the present, so that the rate is the same:
//
//   end of last frame     delay     the program draws     margin   present (predicted)     end
//        ├────────────────────────┼───────────────────────┼────────┼─────────────────────────┤
//                                 └───────── input to present: span, an upper estimate ──────┘
//
// VGRIS (section 3.2) delays by: wanted latency - time of the frame so far - predicted present. Deadlines here are
// absolute: after a late frame the next ones are somewhat shorter until they are on the beat again, so that the mean
// rate is the promised one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/units.h"

namespace weir::core {

/// Mean of the last twenty values (VGRIS, section 3.2).
class MeanOfLast20 {
 public:
  void Add(Duration value) {
    sum_ += value - values_[next_];
    values_[next_] = value;
    next_ = (next_ + 1) % values_.size();
    count_ = std::min(count_ + 1, values_.size());
    // A division by a constant is a multiplication, which takes a fraction of the time.
    mean_ = count_ == kValues ? sum_ / std::int64_t{kValues} : sum_ / static_cast<std::int64_t>(count_);
  }
  [[nodiscard]] Duration mean() const { return mean_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }

 private:
  static constexpr std::size_t kValues = 20;
  std::array<Duration, kValues> values_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  Duration sum_{};
  Duration mean_{};
};

/// Upper estimate of the time of the next frames: a longer frame raises it at once, shorter ones lower it within some
/// hundreds of frames.
class SlowMaximum {
 public:
  void Add(Duration value) { most_ += value > most_ ? value - most_ : (value - most_) / kFrames; }
  [[nodiscard]] Duration value() const { return most_; }

 private:
  static constexpr std::int64_t kFrames = 128;
  Duration most_{};
};

class FramePacer {
 public:
  /// Predicted time from a present's call to its return; zero before the first present.
  [[nodiscard]] Duration PredictedPresent() const { return present_.mean(); }

  /// When to call the driver's present; a time in the past means at once. Whatever the prediction, a frame is held for
  /// at most 5/4 of `interval` (> 0) after the end of the last frame.
  [[nodiscard]] Instant SubmitAt(Duration interval) const {
    if (!began_) return Instant{};
    return EndAt(interval) - PredictedPresent() - std::min(overshoot_.mean(), interval / 4);
  }
  /// With a late frame start: when the program may begin its next frame; a time in the past means at once. The first
  /// kSpansKnown frames begin at once, since their time is not known.
  [[nodiscard]] Instant StartAt(Duration interval) const {
    if (spans_ < kSpansKnown || interval <= Duration{0}) return Instant{};
    return EndAt(interval) - span_.value() - interval / kMarginPart - std::min(start_overshoot_.mean(), interval / 4);
  }
  /// Records that the caller delayed the program until `woke`, having asked for `wanted`.
  void StartDelayed(Instant wanted, Instant woke) {
    start_overshoot_.Add(std::clamp<Duration>(woke - wanted, Duration{0}, milliseconds(50)));
  }
  /// Records the time of a frame from its start to the end of its present, without the delay before the present.
  void Took(Duration span) {
    span_.Add(std::clamp<Duration>(span, Duration{0}, seconds(1)));
    spans_ = std::min(spans_ + 1, kSpansKnown);
  }
  /// Records that the caller slept until `woke`, having asked for `wanted`. SubmitAt subtracts the mean oversleep.
  void Slept(Instant wanted, Instant woke) {
    overshoot_.Add(std::clamp<Duration>(woke - wanted, Duration{0}, milliseconds(50)));
    slept_ = true;
  }
  /// False after kHopeless frames in a row without time to spare. Synchronising such a program gains nothing, and it
  /// would lose the work that its driver queues ahead.
  [[nodiscard]] bool WorthSynchronising() const { return hurried_ < kHopeless; }

  /// Records a present that was called at `submit` and returned at `end`. `interval`: zero while no pace is set.
  void Presented(Duration interval, Instant submit, Instant end) {
    present_.Add(std::max(end - submit, Duration{0}));
    hurried_ = std::exchange(slept_, false) ? 0 : std::min(hurried_ + 1, kHopeless);
    // The beat advances by one interval. It restarts at `end` when there is no beat yet, when the interval changed, or
    // when the frame missed the beat by far: a stall of more than kForgiven intervals is not made up for.
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
  static constexpr int kSpansKnown = 20;
  /// Part of the interval that is left for a frame that takes longer than those before. With less, a busy host makes
  /// more than one frame in a hundred late.
  static constexpr std::int64_t kMarginPart = 8;

  [[nodiscard]] Instant EndAt(Duration interval) const {
    if (interval != interval_) return end_ + interval;
    // Returns to the beat by a quarter of an interval per frame, so that the frame after a late one has some length.
    return std::clamp(beat_ + interval, end_ + interval * 3 / 4, end_ + interval * 5 / 4);
  }

  MeanOfLast20 present_;
  MeanOfLast20 overshoot_;
  MeanOfLast20 start_overshoot_;
  SlowMaximum span_;
  int spans_ = 0;  // frames in span_, counted up to kSpansKnown
  bool began_ = false;
  bool slept_ = false;  // in this frame, before its present
  int hurried_ = 0;     // frames in a row without time to spare
  Duration interval_{};
  Instant beat_{};  // when the last frame should have ended
  Instant end_{};   // when the last frame ended
};

}  // namespace weir::core
