// SPDX-License-Identifier: Apache-2.0
#include "core/stats/frame_summary.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace weir::core {
namespace {

constexpr std::uint64_t kWhole = 1000;  // per mille

double RateOf(double frame_seconds) { return frame_seconds > 0 ? 1 / frame_seconds : 0; }

/// In floating point: a day of frame times a day long would overflow whole nanoseconds.
double SumOf(std::span<const Duration> times) {
  return std::accumulate(times.begin(), times.end(), 0.0,
                         [](double sum, Duration one) { return sum + SecondsOf(one); });
}

bool IsMispredicted(const FrameTimes& frame) {
  const Duration off = frame.end - frame.submit - frame.predicted;
  return off > kMispredictedBy || off < -kMispredictedBy;
}

}  // namespace

Duration NearestRank(std::span<const Duration> ascending, std::uint64_t per_mille) {
  WEIR_CHECK(!ascending.empty() && per_mille <= kWhole);
  const std::uint64_t rank = (ascending.size() * per_mille + kWhole - 1) / kWhole;
  return ascending[std::max<std::uint64_t>(rank, 1) - 1];
}

LowRates LowRatesOf(std::span<const Duration> ascending, std::uint64_t per_mille) {
  if (ascending.empty()) return {};
  LowRates low;
  low.percentile = RateOf(SecondsOf(NearestRank(ascending, kWhole - per_mille)));
  const std::size_t slowest = (ascending.size() * per_mille + kWhole - 1) / kWhole;
  low.slowest_mean = RateOf(SumOf(ascending.last(slowest)) / static_cast<double>(slowest));
  const double wanted = SumOf(ascending) * static_cast<double>(per_mille) / kWhole;
  double filled = 0;
  std::size_t i = ascending.size();
  while (i > 0 && filled < wanted) filled += SecondsOf(ascending[--i]);
  low.integral = RateOf(SecondsOf(ascending[i]));
  return low;
}

FrameSummary Summarize(std::span<const FrameTimes> frames, const FramePromise& promise) {
  FrameSummary summary{.frames = frames.size()};
  if (frames.empty()) return summary;
  const Duration late_after = promise.LateAfter();
  Instant first = frames[0].begin, last = frames[0].end;
  std::vector<Duration> times, inputs;
  times.reserve(frames.size());
  inputs.reserve(frames.size());
  for (const FrameTimes& frame : frames) {
    first = std::min(first, frame.begin);
    last = std::max(last, frame.end);
    if (frame.HasFrameTime()) {
      times.push_back(frame.FrameTime());
      inputs.push_back(frame.InputToPresent());
    }
    if (late_after > Duration{0} && frame.FrameTime() > late_after) ++summary.late;
    if (frame.predicted <= Duration{0}) continue;
    ++summary.predicted;
    if (IsMispredicted(frame)) ++summary.mispredicted;
  }
  summary.span = last - first;
  summary.fps = summary.span > Duration{0} ? static_cast<double>(frames.size()) / SecondsOf(summary.span) : 0;
  summary.timed_frames = times.size();
  if (times.empty()) return summary;
  std::ranges::sort(times);
  summary.mean = FromSeconds(SumOf(times) / static_cast<double>(times.size()));
  summary.p50 = NearestRank(times, 500);
  summary.p95 = NearestRank(times, 950);
  summary.p99 = NearestRank(times, 990);
  summary.max = times.back();
  std::ranges::sort(inputs);
  summary.input_p50 = NearestRank(inputs, 500);
  summary.input_p99 = NearestRank(inputs, 990);
  summary.low_1_percent = LowRatesOf(times, 10);
  summary.low_0_1_percent = LowRatesOf(times, 1);
  return summary;
}

}  // namespace weir::core
