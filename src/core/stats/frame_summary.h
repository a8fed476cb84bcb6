// SPDX-License-Identifier: Apache-2.0
// The figures of a recording, from all of its frames. "1 % low" has three meanings in use, which differ by tens of
// percent on the same frames: each has its own name here.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "core/stats/frame_stats.h"

namespace weir::core {

/// When one frame happened.
struct FrameTimes {
  Instant begin;         // return of the previous present
  Instant present;       // the program called present
  Instant submit;        // the driver's present was called: what lies before was added by the gate and the shim
  Instant end;           // return of present
  Duration predicted{};  // what `end - submit` was predicted to be; zero: nothing was
  [[nodiscard]] Duration FrameTime() const { return end - begin; }
  /// Of a surface's first present the previous one is unknown: it has no frame time.
  [[nodiscard]] bool HasFrameTime() const { return begin < present; }
};

/// Frames per second that the slowest part of the frames, a fraction of them or of the time, was shown at.
struct LowRates {
  /// Rate at the nearest-rank percentile of frame times (1 % low: 1 / p99).
  double percentile = 0;
  /// Rate of the mean frame time of the slowest fraction of the frames, at least of one.
  double slowest_mean = 0;
  /// Rate of the frame at which the worst frames, taken slowest first, fill the fraction of the time.
  double integral = 0;
};

struct FrameSummary {
  std::uint64_t frames = 0;        // all presents
  Duration span{};                 // from the first begin to the last end
  double fps = 0;                  // frames / span
  std::uint64_t timed_frames = 0;  // those with a frame time; what follows is about them
  Duration mean{}, p50{}, p95{}, p99{}, max{};
  LowRates low_1_percent{}, low_0_1_percent{};
  std::uint64_t late = 0;  // beyond the promise
  std::uint64_t predicted = 0;
  std::uint64_t mispredicted = 0;  // by more than kMispredictedBy
};

inline constexpr Duration kMispredictedBy = milliseconds(2);

FrameSummary Summarize(std::span<const FrameTimes> frames, const FramePromise& promise);

/// Nearest rank: the least of the values that at least `per_mille` thousandths of them don't exceed. `ascending` is
/// sorted and not empty.
Duration NearestRank(std::span<const Duration> ascending, std::uint64_t per_mille);

/// `ascending`: frame times, sorted, each above zero. Zeros when there is none.
LowRates LowRatesOf(std::span<const Duration> ascending, std::uint64_t per_mille);

}  // namespace weir::core
