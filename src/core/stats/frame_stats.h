// SPDX-License-Identifier: Apache-2.0
// Statistics of the frames of one vGPU: totals since its creation, rates over the last second, percentiles over the
// last five to ten seconds. Frame latency is the time between the returns of two consecutive presents (VGRIS, section
// 3.2).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/units.h"
#include "core/stats/bucket_counts.h"
#include "core/stats/log_histogram.h"

namespace weir::core {

/// One completed frame or task, already validated.
struct FrameDone {
  Instant begin;                 // return of the previous present
  Instant present;               // call of present
  Instant end;                   // return of present
  Duration gpu{};                // GPU time in the device's unit
  Duration start_delay{};        // of present - begin: delayed before the program began the frame
  Duration wait{};               // spent waiting at the gate
  Duration pace{};               // delay added to keep the pace
  Duration took{};               // duration of the driver's present
  Duration predicted{};          // predicted duration of that present; zero: no prediction
  std::uint64_t loop = 0;        // the window or queue of a process that the frame belongs to
  std::uint32_t count = 1;       // tasks that ended with it; rates count these. 0: a part of a task, never late
  bool present_follows = false;  // `end` is the end of its work; its present waits for something else than the device
  [[nodiscard]] Duration Latency() const { return end - begin; }
  /// The part of the latency that the frame needs by itself: the time of the program, and the GPU time of the work. The
  /// latter is limited to the time after the submission, since a meter may report the GPU time of an earlier frame.
  [[nodiscard]] Duration Own() const {
    return Think() + std::clamp(gpu, Duration{0}, std::max(Latency() - Think() - Held(), Duration{0}));
  }
  /// Time that the program itself takes before it calls present.
  [[nodiscard]] Duration Think() const { return present - begin - start_delay; }
  /// Time at the gate, and delays that keep the pace: before the frame and before its present.
  [[nodiscard]] Duration Held() const { return start_delay + wait + pace; }
  /// The rest of the latency: behind other work in the driver's queue, or in a present that waits for something.
  [[nodiscard]] Duration Queued() const { return std::max(Latency() - Own() - Held(), Duration{0}); }
};

/// The promise that a frame is compared with: `latency`, or else the interval of `fps` for each completed task and a
/// tolerance of 1 ms. Zero: no promise.
struct FramePromise {
  double fps = 0;  // or tasks/s
  Duration latency{};
  /// `count`: number of tasks that ended together.
  [[nodiscard]] Duration LateAfter(std::uint32_t count = 1) const {
    if (latency > Duration{0}) return latency;
    return fps > 0 ? FromSeconds(count / fps) + milliseconds(1) : Duration{0};
  }
  /// Whether a frame breaks the promise. It does if it is late, and either would have been in time without its waits
  /// for others, or these waits alone are longer than what is promised for the whole frame. `others`: upper bound of a
  /// wait in the driver, which is the GPU time that others used meanwhile. A program that by itself draws less often
  /// than promised breaks no promise.
  [[nodiscard]] bool BrokenBy(const FrameDone& frame, Duration others) const {
    const Duration late_after = frame.count > 0 ? LateAfter(frame.count) : Duration{0};
    if (late_after <= Duration{0} || frame.Latency() <= late_after) return false;
    const Duration waited = frame.Held() + std::min(frame.Queued(), others);
    return frame.Latency() - waited <= late_after || waited > late_after;
  }
};

/// A prediction that was off by more than this failed (VGRIS, Fig. 9).
inline constexpr Duration kPredictionFailed = milliseconds(2);

struct FrameTotals {
  std::uint64_t frames = 0;
  std::uint64_t tasks = 0;  // sum of FrameDone::count: frames, and the tasks that ended with batches
  std::uint64_t late_frames = 0;
  std::uint64_t broken_frames = 0;  // of these: late because they waited for others (FramePromise::BrokenBy)
  std::uint64_t predicted = 0;      // frames whose present was predicted
  std::uint64_t mispredicted = 0;   // of these: off by more than kPredictionFailed
  Duration gpu{};
  Duration wait{};
  Duration pace{};
};

struct FrameWindow {
  Duration span{};
  std::uint64_t frames = 0;  // sum over all loops
  double fps = 0;            // frames or tasks per second of the fastest loop; a promise holds for each loop
  Duration mean{}, p50{}, p95{}, p99{}, max{};
  double wait_share = 0;  // part of wall time, summed over threads
  double pace_share = 0;  // part of wall time, summed over threads
};

/// Of frame latencies. For each common rate from 10 to 240 frames/s there is a bound at which a promised frame begins
/// to be late (FramePromise::LateAfter), rounded up, and none between it and the interval of that rate.
inline constexpr std::array<Duration, 16> kFrameBounds{
    microseconds(2'500),  microseconds(5'500),  microseconds(8'000),  microseconds(9'500),
    microseconds(12'500), microseconds(14'500), microseconds(18'000), microseconds(21'000),
    microseconds(26'000), microseconds(35'000), microseconds(51'000), microseconds(75'000),
    milliseconds(101),    milliseconds(250),    milliseconds(500),    milliseconds(1'000)};
/// Of a frame's wait at the gate.
inline constexpr std::array<Duration, 13> kWaitBounds{
    microseconds(100),     microseconds(250),     microseconds(500),      microseconds(1'000),  microseconds(2'500),
    microseconds(5'000),   microseconds(10'000),  microseconds(25'000),   microseconds(50'000), microseconds(100'000),
    microseconds(250'000), microseconds(500'000), microseconds(1'000'000)};

/// Since the creation of the vGPU, of all its frames.
struct FrameHistograms {
  BucketCounts<kFrameBounds> latency;
  BucketCounts<kWaitBounds> wait;
};

class FrameStats {
 public:
  /// `others`: the GPU time that other vGPUs used while the frame may have waited for them. None: the vGPU uses all of
  /// its own cap, so that the frame breaks no promise.
  void Add(const FrameDone& frame, const FramePromise& promise, std::optional<Duration> others = {});
  [[nodiscard]] const FrameTotals& totals() const { return totals_; }
  [[nodiscard]] FrameHistograms histograms() const { return histograms_ ? histograms_->all : FrameHistograms{}; }
  [[nodiscard]] FrameWindow Window(Instant now) const;
  /// Frames/s or tasks/s of the fastest loop in the last whole second.
  [[nodiscard]] double Rate(Instant now) const;

 private:
  static constexpr std::int64_t kBuckets = 11;  // ten complete ones and the current one
  static constexpr Duration kBucket = milliseconds(100);
  static constexpr Duration kHistogramSpan = seconds(5);
  struct Bucket {
    std::int64_t index = -1;
    std::uint32_t frames = 0;
    Duration latency{};
    Duration wait{};
    Duration pace{};
  };
  /// Frames of one loop by tenths of a second. A new loop replaces the one that has been silent for longest.
  struct Loop {
    std::uint64_t key = 0;
    std::int64_t last = -1;  // tenth of a second of its last frame; -1: no loop
    std::array<std::uint32_t, kBuckets> frames{};
    std::uint32_t sum = 0;  // of these
  };
  static constexpr std::size_t kLoops = 8;
  struct Histograms {
    FrameHistograms all;
    Instant since{};        // of `current`
    LogHistogram current;   // of latencies
    LogHistogram previous;  // those of the five seconds before
  };

  static bool Inside(std::int64_t bucket, std::int64_t now) { return bucket >= now - 10 && bucket < now; }
  void Count(std::uint64_t loop, std::int64_t index, std::uint32_t count);

  FrameTotals totals_;
  std::array<Loop, kLoops> loops_{};
  std::array<Bucket, kBuckets> buckets_{};
  std::unique_ptr<Histograms> histograms_;  // allocated at the first frame, so that idle vGPUs stay small
};

}  // namespace weir::core
