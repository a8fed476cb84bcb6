// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weir::cli {

std::vector<Workload> DefaultWorkloads() {
  // Alone, each program would use more of an embedded device with two CPUs than its weight gives it: see the README of
  // this module. The promised rates together fit the device, so that sla-aware can keep them. A scene's duration
  // exceeds every phase; the demo ends the programs.
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

std::vector<Workload> EmulatedWorkloads(const std::vector<std::string>& devices) {
  // Alone, each program would use the whole device. Windows are small and the device descriptions disable drawing, so
  // that this many programs fit on two CPUs. The rates of three need 0.81 of a device with frames of 6 ms.
  std::vector<Workload> workloads;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string at = devices.size() == 1 ? "" : "-" + std::to_string(i);
    const auto glmark2 = [](const std::string& scene) {
      return std::vector<std::string>{"glmark2", "-s", "320x240", "--run-forever", "-b", scene + ":duration=3600"};
    };
    workloads.push_back({"bump" + at, 50, 60, glmark2("bump"), "glmark2-x11", devices[i]});
    workloads.push_back({"phong" + at, 30, 45, glmark2("shading:shading=phong"), "glmark2-x11", devices[i]});
    workloads.push_back({"gears" + at, 20, 30, {"glxgears", "-geometry", "320x240"}, "mesa-utils", devices[i]});
  }
  return workloads;
}

std::vector<std::vector<std::size_t>> DemoResult::ByDevice() const {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const auto group = std::ranges::find_if(
        groups, [&](const auto& one) { return workloads[one.front()].device == workloads[i].device; });
    if (group == groups.end())
      groups.push_back({i});
    else
      group->push_back(i);
  }
  return groups;
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
  for (std::size_t i = 0; i < result.workloads.size(); ++i) {
    if (result.workloads[i].device != result.workloads[program].device) continue;
    weights += result.workloads[i].weight;
    gpu_ns += p.programs[i].tally.gpu_ns;
  }
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
