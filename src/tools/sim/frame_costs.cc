// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/frame_costs.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weir::cli {
namespace {

constexpr std::int64_t kSpanLeastNs = 1'000'000'000;
constexpr std::size_t kFramesLate = 8;  // frames by which a timestamp may be late (docs/protocol/trace.md)

using FrameWeights = std::vector<double>;  // by frame
using LoopKey = std::pair<std::uint32_t, std::uint32_t>;

std::map<LoopKey, std::vector<std::size_t>> FramesByLoop(const proto::Trace& trace) {
  std::map<LoopKey, std::vector<std::size_t>> loops;
  for (std::size_t i = 0; i < trace.frames.size(); ++i)
    loops[{trace.frames[i].process, trace.frames[i].surface}].push_back(i);
  return loops;
}

/// Replaces each value by the mean of the values up to `reach` frames before and after it.
void Smooth(const std::vector<std::size_t>& frames, std::size_t reach, FrameWeights& weights) {
  std::vector<double> sums(frames.size() + 1);
  for (std::size_t i = 0; i < frames.size(); ++i) sums[i + 1] = sums[i] + weights[frames[i]];
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::size_t first = i - std::min(i, reach), last = std::min(i + reach + 1, frames.size());
    weights[frames[i]] = (sums[last] - sums[first]) / static_cast<double>(last - first);
  }
}

FrameWeights WeightsOf(const proto::Trace& trace) {
  FrameWeights weights;
  weights.reserve(trace.frames.size());
  for (const proto::TraceFrame& frame : trace.frames) weights.push_back(static_cast<double>(frame.gpu_ns));
  for (const auto& [loop, frames] : FramesByLoop(trace)) {
    const std::string& meter = trace.processes[loop.first].meter;
    if (meter == "wall-clock") Smooth(frames, frames.size(), weights);
    if (meter == "timer-query") Smooth(frames, kFramesLate / 2, weights);
  }
  return weights;
}

/// The time between two charges of the record, and the GPU time charged in it.
struct Charged {
  std::int64_t from_ns = 0, to_ns = 0;
  double ns = 0;
  double weight = 0, frames = 0;  // sum of weights, and number, of the frames in it; a frame may count in part
  [[nodiscard]] double Scale() const { return weight > 0 ? ns / weight : 1; }
  [[nodiscard]] double Mean() const { return frames > 0 ? ns / frames : 0; }
};

std::vector<Charged> SpansOf(const proto::Trace& trace) {
  std::vector<Charged> spans;
  const proto::TraceCharge* last = nullptr;
  for (const proto::TraceCharge& charge : trace.charges) {
    if (last == nullptr) last = &charge;
    if (charge.at_ns - last->at_ns < kSpanLeastNs || charge.total_ns < last->total_ns) continue;
    spans.push_back({last->at_ns, charge.at_ns, static_cast<double>(charge.total_ns - last->total_ns)});
    last = &charge;
  }
  return spans;
}

/// Calls `visit` with each span that overlaps the frame, and the part of the frame that lies in it.
template <typename Visit>
void ForEachSpan(const proto::TraceFrame& frame, std::vector<Charged>& spans, const Visit& visit) {
  auto span = std::ranges::upper_bound(spans, frame.begin_ns, {}, &Charged::to_ns);
  for (; span != spans.end() && span->from_ns <= frame.EndNs(); ++span)
    visit(*span, PartInside(frame.begin_ns, frame.EndNs(), span->from_ns, span->to_ns));
}

}  // namespace

double PartInside(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t from_ns, std::int64_t to_ns) {
  if (end_ns <= begin_ns) return begin_ns >= from_ns && begin_ns < to_ns ? 1 : 0;
  const std::int64_t inside = std::min(end_ns, to_ns) - std::max(begin_ns, from_ns);
  return inside > 0 ? static_cast<double>(inside) / static_cast<double>(end_ns - begin_ns) : 0;
}

std::vector<Duration> FrameCosts(const proto::Trace& trace) {
  const FrameWeights weights = WeightsOf(trace);
  std::vector<Charged> spans = SpansOf(trace);
  std::vector<Duration> costs;
  costs.reserve(trace.frames.size());
  if (spans.empty()) {
    for (const proto::TraceFrame& frame : trace.frames) costs.emplace_back(static_cast<std::int64_t>(frame.gpu_ns));
    return costs;
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    ForEachSpan(trace.frames[i], spans, [&](Charged& span, double part) {
      span.weight += weights[i] * part;
      span.frames += part;
    });
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const proto::TraceFrame& frame = trace.frames[i];
    // The part of a frame before the first charge or after the last one gets the mean cost of the nearest span's
    // frames.
    const Charged& nearest = frame.begin_ns < spans.front().from_ns ? spans.front() : spans.back();
    double outside = 1, scale = 0;
    ForEachSpan(frame, spans, [&](const Charged& span, double part) {
      outside -= part;
      scale += part * span.Scale();
    });
    costs.emplace_back(static_cast<std::int64_t>(weights[i] * scale + std::max(outside, 0.0) * nearest.Mean()));
  }
  return costs;
}

}  // namespace weir::cli
