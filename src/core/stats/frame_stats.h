// SPDX-License-Identifier: Apache-2.0
// What the frames of one vGPU say: totals since its creation, rates over the last second, percentiles over the last
// five to ten seconds. Frame latency is the time between the returns of two consecutive presents (VGRIS, section 3.2).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/units.h"
#include "core/stats/log_histogram.h"

namespace weir::core {

/// One frame, or task, that is done; checked already.
struct FrameDone {
  Instant begin;    // return of the previous present
  Instant present;  // call of present
  Instant end;      // return of present
  Duration gpu{};   // GPU time in the device's unit
  Duration wait{};  // spent waiting at the gate
  [[nodiscard]] Duration Latency() const { return end - begin; }
};

/// The promise a frame is measured against: `latency`, else one interval of `fps` plus 1 ms; zero: no promise.
struct FramePromise {
  double fps = 0;
  Duration latency{};
  [[nodiscard]] Duration LateAfter() const {
    if (latency > Duration{0}) return latency;
    return fps > 0 ? FromSeconds(1.0 / fps) + milliseconds(1) : Duration{0};
  }
};

struct FrameTotals {
  std::uint64_t frames = 0;
  std::uint64_t late_frames = 0;
  Duration gpu{};
  Duration wait{};
};

struct FrameWindow {
  Duration span{};
  std::uint64_t frames = 0;
  double fps = 0;
  Duration mean{}, p50{}, p95{}, p99{}, max{};
  double wait_share = 0;  // of wall time, summed over threads
};

class FrameStats {
 public:
  void Add(const FrameDone& frame, const FramePromise& promise);
  [[nodiscard]] const FrameTotals& totals() const { return totals_; }
  [[nodiscard]] FrameWindow Window(Instant now) const;

 private:
  static constexpr std::int64_t kBuckets = 11;  // ten whole ones and the current one
  static constexpr Duration kBucket = milliseconds(100);
  static constexpr Duration kHistogramSpan = seconds(5);
  struct Bucket {
    std::int64_t index = -1;
    std::uint32_t frames = 0;
    Duration latency{};
    Duration wait{};
  };
  struct Histograms {
    Instant since{};
    LogHistogram current;
    LogHistogram previous;
  };

  FrameTotals totals_;
  std::array<Bucket, kBuckets> buckets_{};
  std::unique_ptr<Histograms> histograms_;  // made at the first frame: idle vGPUs stay small
};

}  // namespace weir::core
