// SPDX-License-Identifier: Apache-2.0
// Figures of a whole recording, from all of its frames. "1 % low" is used with three meanings, which differ by tens of
// percent for the same frames; here each meaning has its own name.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "core/stats/frame_stats.h"

namespace weir::core {

/// Timestamps of one frame.
struct FrameTimes {
  Instant begin;           // return of the previous present
  Instant present;         // the program called present
  Instant submit;          // the driver's present was called; the gate and the shim caused the time since `present`
  Instant end;             // return of present
  Duration predicted{};    // predicted duration of `end - submit`; zero: no prediction
  Duration start_delay{};  // of present - begin: delayed before the program began the frame
  [[nodiscard]] Duration FrameTime() const { return end - begin; }
  /// The age of the newest input that the frame can show, at the end of its present.
  [[nodiscard]] Duration InputToPresent() const { return end - begin - start_delay; }
  /// The first present of a surface has no predecessor, and so no frame time.
  [[nodiscard]] bool HasFrameTime() const { return begin < present; }
};

/// Frame rates of the slowest part of a recording, which is a fraction of its frames or of its time.
struct LowRates {
  /// Rate at the nearest-rank percentile of frame times (1 % low: 1 / p99).
  double percentile = 0;
  /// Rate of the mean frame time of the slowest fraction of the frames, at least of one.
  double slowest_mean = 0;
  /// Rate of the frame at which the slowest frames, added slowest first, fill the given fraction of the time.
  double integral = 0;
};

struct FrameSummary {
  std::uint64_t frames = 0;        // all presents
  Duration span{};                 // from the first begin to the last end
  double fps = 0;                  // frames / span
  std::uint64_t timed_frames = 0;  // frames with a frame time; the figures below cover these
  Duration mean{}, p50{}, p95{}, p99{}, max{};
  Duration input_p50{}, input_p99{};  // from input to present
  LowRates low_1_percent{}, low_0_1_percent{};
  std::uint64_t late = 0;  // frames that took longer than promised
  std::uint64_t predicted = 0;
  std::uint64_t mispredicted = 0;  // by more than kMispredictedBy
};

inline constexpr Duration kMispredictedBy = milliseconds(2);

FrameSummary Summarize(std::span<const FrameTimes> frames, const FramePromise& promise);

/// Nearest rank: the lowest value that is at or above at least `per_mille` thousandths of the values. `ascending` is
/// sorted and not empty.
Duration NearestRank(std::span<const Duration> ascending, std::uint64_t per_mille);

/// `ascending`: sorted frame times, each above zero. Returns zeros if it is empty.
LowRates LowRatesOf(std::span<const Duration> ascending, std::uint64_t per_mille);

}  // namespace weir::core
