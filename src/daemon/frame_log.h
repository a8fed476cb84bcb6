// SPDX-License-Identifier: Apache-2.0
// The last frames of one vGPU, for the control API. Bounded; a reader learns how many frames were dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "gate/host.h"

namespace weir::daemon {

class FrameLog {
 public:
  static constexpr std::uint64_t kFramesMax = 16'384;

  void Add(const gate::HostFrame& frame) {
    if (frames_.size() < kFramesMax)
      frames_.push_back(frame);
    else
      frames_[next_ % kFramesMax] = frame;
    ++next_;
  }

  struct Slice {
    std::uint64_t next = 0;  // pass this as `after` in the next call
    std::uint64_t lost = 0;  // dropped frames with numbers above `after`
    std::vector<gate::HostFrame> frames;
  };
  /// Frames numbered above `after`, oldest first. Numbers start at 1.
  [[nodiscard]] Slice After(std::uint64_t after, std::uint64_t limit) const {
    Slice slice{.next = after, .lost = 0, .frames = {}};
    const std::uint64_t oldest = next_ > frames_.size() ? next_ - frames_.size() : 0;
    std::uint64_t from = after > next_ ? next_ : after;
    if (from < oldest) {
      slice.lost = oldest - from;
      from = oldest;
    }
    for (; from < next_ && slice.frames.size() < limit; ++from) slice.frames.push_back(frames_[from % kFramesMax]);
    slice.next = from;
    return slice;
  }

 private:
  std::vector<gate::HostFrame> frames_;
  std::uint64_t next_ = 0;
};

}  // namespace weir::daemon
