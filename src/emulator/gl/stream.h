// SPDX-License-Identifier: Apache-2.0
// The work of one thread for the device, as a sequence of batches. Pure: the caller has the clock and the lock.
//
//   program:   draw draw flush │ draw fence draw swap │
//   batches:   └── batch 1 ──┘ └─ batch 2 ─┘└ batch 3 ┘   a batch goes to the device as one command
//
//   a batch:   open ──▶ closed ──▶ submitted ──▶ done     if the batch has work
//                 └───▶ empty: done together with the batch before it
//
// A timestamp closes a batch. As on a GPU, it submits nothing: what was drawn stays with the program until it flushes,
// swaps, makes a fence, or asks for the timestamp.
//
// A timestamp has the time at which its batch begins or ends on the device, as on a GPU. The time for which a batch
// waits for the device is not between its two timestamps; turns of other clients within the batch are.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/units.h"

namespace weir::emulator::gl {

struct Batch {
  enum class State { kOpen, kClosed, kSubmitted, kDone, kEmpty };
  State state = State::kOpen;
  std::shared_ptr<const Batch> before;  // kEmpty: the last batch with work; null: none
  Instant began{}, ended{};             // kDone: by the device's clock. kEmpty: both are the time of closing.

  [[nodiscard]] bool Done() const {
    return state == State::kDone || (state == State::kEmpty && (!before || before->Done()));
  }
  /// Whether the batch, or the one with which it will be done, is still with its program.
  [[nodiscard]] bool Held() const {
    if (state == State::kEmpty) return before && before->Held();
    return state == State::kOpen || state == State::kClosed;
  }
  /// Began and Ended require Done().
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

/// The cost of a frame: a fixed time, or the CPU time of rendering the frame, multiplied by a factor.
struct FrameCost {
  std::optional<Duration> fixed;
  double factor = 1;
  [[nodiscard]] bool measured() const { return !fixed.has_value(); }
};

/// The batches of one thread.
class Stream {
 public:
  static constexpr std::size_t kFramesMax = 16;
  /// A thread that has not swapped for this long renders off screen.
  static constexpr Duration kSwapsFor = seconds(1);

  /// Records a draw call: the open batch has work.
  void Drew() {
    drawn_ = true;
    // A thread that does not swap is single-buffered or renders off screen: its frames end with a flush.
    if (flushed_ && !swapped_) charged_ = false;
    flushed_ = false;
  }
  /// Records that the program has flushed, or has waited for what it drew.
  void Flushed(Instant now) {
    flushed_ = true;
    if (now - swapped_at_ >= kSwapsFor) swapped_ = false;
  }
  [[nodiscard]] bool drawn() const { return drawn_; }
  /// Whether the thread shows its frames, as determined at its last flush.
  [[nodiscard]] bool swaps() const { return swapped_; }

  /// The work of what was drawn since the last batch. A fixed cost is charged once in a frame, in the frame's first
  /// batch. `cpu`: CPU time of the renderer since the last call.
  Duration TakeWork(const FrameCost& cost, Duration cpu);

  /// Closes the open batch. Null: `work` is zero, so nothing has to be submitted.
  BatchPtr Close(Instant now, Duration work);
  struct Command {
    BatchPtr batch;
    Duration work;
  };
  /// The closed batches, which the caller submits in this order.
  std::vector<Command> TakeClosed();
  [[nodiscard]] bool has_closed() const { return !closed_commands_.empty(); }
  /// The batch after which all work until now is done. Null: there was no work.
  [[nodiscard]] BatchPtr last() const { return last_; }
  /// A timestamp at the current point. Requires that no draw call is in the open batch.
  [[nodiscard]] Timestamp Begin() const { return {open_, true}; }
  /// A timestamp at the end of the batch that was closed last.
  [[nodiscard]] Timestamp End() const { return closed_ ? Timestamp{closed_, false} : Begin(); }
  [[nodiscard]] bool IsOpen(const Batch* batch) const { return batch == open_.get(); }
  /// Whether the batch, or the one with which it will be done, is closed in this stream and not submitted.
  [[nodiscard]] bool IsClosed(const Batch* batch) const;

  /// Records a swapped frame, which leaves the queue of frames when `shown` is done.
  void EndFrame(BatchPtr shown, Instant now);
  /// The batch that must be done before at most `depth` frames are in flight. Null: there are no more already.
  BatchPtr Oldest(std::size_t depth);

 private:
  BatchPtr open_ = std::make_shared<Batch>();
  BatchPtr closed_;  // the batch that was closed last
  BatchPtr last_;    // the last batch with work
  std::vector<Command> closed_commands_;
  std::deque<BatchPtr> frames_;
  bool drawn_ = false;
  bool charged_ = false;  // the fixed cost of this frame has been charged
  bool flushed_ = false;  // since the last draw call
  bool swapped_ = false;
  Instant swapped_at_{};
};

}  // namespace weir::emulator::gl
