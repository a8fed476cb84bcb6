// SPDX-License-Identifier: Apache-2.0
// Learns the GPU time that a frame or task of each loop of a vGPU costs. A promised rate holds for each loop (window,
// executor), so what the promise needs is the rate times the sum of these costs. An idle vGPU keeps its promise, and
// thus the costs of its loops until it draws again.
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"
#include "core/stats/frame_stats.h"

namespace weir::core {

/// GPU time of one frame or task of each loop, summed over the loops. No loops: the cost is not known.
struct LoopCost {
  Duration each{};
  std::uint32_t loops = 0;
};

class LoopCosts {
 public:
  /// Number of loops that are remembered. A further one replaces the loop that has been silent for longest, as in
  /// FrameStats.
  static constexpr std::size_t kLoops = 8;
  /// A loop whose last frame is this much older than the vGPU's last one has ended, and no longer counts.
  static constexpr Duration kEnded = seconds(5);
  /// A cost is known after this many frames besides the first, which often compiles shaders.
  static constexpr std::uint32_t kKnownAfter = 4;

  void Add(const FrameDone& frame);
  /// The sum over the loops with known costs. Loops whose cost is not known yet are left out.
  [[nodiscard]] LoopCost Now() const;

 private:
  struct Loop {
    std::uint64_t key = 0;
    Instant last{};
    std::uint32_t ended = 0;  // frames and tasks that ended, counted up to kMeanOf
    Duration pending{};       // GPU time of the parts of a task that has not ended
    Duration cost{};          // mean cost of about the last kMeanOf frames or tasks
    bool used = false;
  };
  static constexpr std::uint32_t kMeanOf = 16;

  Loop& At(std::uint64_t key);

  std::array<Loop, kLoops> loops_{};
  Instant last_{};
};

}  // namespace weir::core
