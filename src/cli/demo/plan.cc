// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weir::cli {

std::vector<Workload> DefaultWorkloads() {
  // Alone each would use more of a software device with two CPUs than its weight gives it: see the README of this
  // module. Their promised rates together fit the device, so sla-aware can keep them. A scene's duration outlasts every
  // phase; the demo ends the programs.
  return {
      {"desktop", 50, 25, {"glmark2", "-s", "800x600", "--run-forever", "-b", "desktop:duration=3600"}, "glmark2-x11"},
      {"phong",
       30,
       30,
       {"glmark2", "-s", "800x600", "--run-forever", "-b", "shading:shading=phong:duration=3600"},
       "glmark2-x11"},
      {"gears", 20, 60, {"glxgears", "-geometry", "800x800"}, "mesa-utils"},
  };
}

Goal GoalOf(std::string_view policy) {
  if (policy == "proportional-share" || policy == "reserve") return Goal::kShares;
  if (policy == "sla-aware" || policy == "hybrid") return Goal::kRates;
  return Goal::kNothing;
}

bool RateIsKept(const Workload& workload, const Outcome& outcome) { return outcome.fps >= workload.fps * 0.98; }

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const double rank = std::ceil(p * static_cast<double>(values.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::min(index, values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

std::vector<double> LatenciesMs(const std::vector<Frame>& frames, std::int64_t begin_ns, std::int64_t end_ns) {
  std::vector<double> out;
  out.reserve(frames.size());
  for (const Frame& frame : frames)
    if (frame.end_ns >= begin_ns && frame.end_ns < end_ns) out.push_back(static_cast<double>(frame.latency_ns) * 1e-6);
  return out;
}

Outcome Judge(const DemoResult& result, std::size_t phase, std::size_t program) {
  const Phase& p = result.phases[phase];
  const ProgramPhase& mine = p.programs[program];
  std::int64_t weights = 0, gpu_ns = 0;
  for (const Workload& workload : result.workloads) weights += workload.weight;
  for (const ProgramPhase& one : p.programs) gpu_ns += one.tally.gpu_ns;
  const std::vector<double> ms = LatenciesMs(mine.frames, p.begin_ns, p.end_ns);
  const double span_ns = static_cast<double>(std::max<std::int64_t>(p.end_ns - p.begin_ns, 1));

  Outcome out;
  out.promise = weights == 0 ? 0 : static_cast<double>(result.workloads[program].weight) / static_cast<double>(weights);
  out.got = gpu_ns == 0 ? 0 : static_cast<double>(mine.tally.gpu_ns) / static_cast<double>(gpu_ns);
  out.use = static_cast<double>(mine.tally.gpu_ns) / span_ns;
  out.fps = static_cast<double>(mine.tally.frames) * 1e9 / span_ns;
  out.wait = static_cast<double>(mine.tally.wait_ns) / span_ns;
  out.frames = mine.tally.frames;
  out.late_frames = mine.tally.late_frames;
  if (!ms.empty()) {
    out.mean_ms = std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(ms.size());
    out.p99_ms = Percentile(ms, 0.99);
    out.max_ms = *std::max_element(ms.begin(), ms.end());
  }
  return out;
}

}  // namespace weir::cli
