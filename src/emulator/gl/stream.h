// SPDX-License-Identifier: Apache-2.0
// What one thread gives the device, as a sequence of batches. Pure: the caller has the clock and the lock.
//
//   program:   draw draw flush │ draw fence draw swap │
//   batches:   └── batch 1 ──┘ └─ batch 2 ─┘└ batch 3 ┘   a batch that was closed goes to the device as one command
//
//   a batch:   open ──▶ submitted ──▶ done          it has work
//                 └───▶ empty: done with the one before it
//
// A timestamp is taken where its batch begins or ends on the device, as on a GPU: time that a batch waits for the
// device is not in between; other clients' turns within the batch are.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "base/units.h"

namespace weir::emulator::gl {

struct Batch {
  enum class State { kOpen, kSubmitted, kDone, kEmpty };
  State state = State::kOpen;
  std::shared_ptr<const Batch> before;  // kEmpty: the last one that had work; null: there was none
  Instant began{}, ended{};             // kDone: on the device's clock. kEmpty: both are when it was closed.

  [[nodiscard]] bool Done() const {
    return state == State::kDone || (state == State::kEmpty && (!before || before->Done()));
  }
  /// Both need Done().
  [[nodiscard]] Instant Began() const {
    return state == State::kEmpty && before && before->ended > began ? before->ended : began;
  }
  [[nodiscard]] Instant Ended() const { return state == State::kEmpty ? Began() : ended; }
};
using BatchPtr = std::shared_ptr<Batch>;

/// A point in a stream whose time becomes known.
struct Timestamp {
  std::shared_ptr<const Batch> batch;  // Null: no timestamp was taken.
  bool at_begin = false;
  [[nodiscard]] bool Known() const { return !batch || batch->Done(); }
  [[nodiscard]] Instant At() const { return !batch ? Instant{} : at_begin ? batch->Began() : batch->Ended(); }
};

/// What a frame costs: a fixed amount, or the CPU time that rendering it took, multiplied by a factor.
struct FrameCost {
  std::optional<Duration> fixed;
  double factor = 1;
  [[nodiscard]] bool measured() const { return !fixed.has_value(); }
};

class Stream {
 public:
  static constexpr std::size_t kFramesMax = 16;
  /// A thread that has not swapped for this long renders off screen.
  static constexpr Duration kSwapsFor = seconds(1);

  /// A draw call: the open batch has work.
  void Drew() {
    drawn_ = true;
    // A thread that does not swap is single-buffered or renders off screen: its frames end with a flush.
    if (flushed_ && !swapped_) charged_ = false;
    flushed_ = false;
  }
  /// The program has flushed, or waited for what it drew.
  void Flushed(Instant now) {
    flushed_ = true;
    if (now - swapped_at_ >= kSwapsFor) swapped_ = false;
  }
  [[nodiscard]] bool drawn() const { return drawn_; }
  /// Whether the thread shows its frames, as of its last flush.
  [[nodiscard]] bool swaps() const { return swapped_; }

  /// Work of what was drawn since the last batch. A fixed cost is taken once in a frame, in its first batch.
  /// `cpu`: CPU time of the renderer since it was last asked for.
  Duration TakeWork(const FrameCost& cost, Duration cpu);

  /// Closes the open batch. Null: `work` is zero, so nothing has to be submitted.
  BatchPtr Close(Instant now, Duration work);
  /// The point that all work until now is done at. Null: there was none.
  [[nodiscard]] BatchPtr last() const { return last_; }
  /// The current point. The caller has closed a batch that has draws in it.
  [[nodiscard]] Timestamp Begin() const { return {open_, true}; }
  /// The end of the batch that was closed last.
  [[nodiscard]] Timestamp End() const { return closed_ ? Timestamp{closed_, false} : Begin(); }
  [[nodiscard]] bool IsOpen(const Batch* batch) const { return batch == open_.get(); }

  /// A frame was swapped; it leaves the queue when `shown` is done.
  void EndFrame(BatchPtr shown, Instant now);
  /// What must be done before at most `depth` frames are under way. Null: it is so already.
  BatchPtr Oldest(std::size_t depth);

 private:
  BatchPtr open_ = std::make_shared<Batch>();
  BatchPtr closed_;  // the last one that was closed
  BatchPtr last_;    // the last one that had work
  std::deque<BatchPtr> frames_;
  bool drawn_ = false;
  bool charged_ = false;  // the fixed cost of this frame is taken
  bool flushed_ = false;  // since the last draw call
  bool swapped_ = false;
  Instant swapped_at_{};
};

}  // namespace weir::emulator::gl
