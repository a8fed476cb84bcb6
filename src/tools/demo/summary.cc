// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/common/table.h"
#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

constexpr double kOffByPoints = 0.03;  // a share that misses its promise by more is marked

Style StyleOfShare(const Outcome& o, Goal goal) {
  if (goal != Goal::kShares) return Style::kPlain;
  return std::abs(o.got - o.promise) <= kOffByPoints ? Style::kGood : Style::kWarning;
}

Style StyleOfRate(const Workload& workload, const Outcome& o, Goal goal) {
  if (goal != Goal::kRates || workload.fps <= 0) return Style::kPlain;
  return RateIsKept(workload, o) ? Style::kGood : Style::kWarning;
}

std::string RateText(const Workload& workload, const Outcome& o) {
  return workload.fps > 0 ? fmt::format("{:.1f}/{:g}", o.fps, workload.fps) : fmt::format("{:.1f}", o.fps);
}

std::string LateText(const Workload& workload, const Outcome& o) {
  if (LateAfterMs(workload) <= 0) return "-";
  const double part = o.frames == 0 ? 0 : static_cast<double>(o.late_frames) / static_cast<double>(o.frames);
  return fmt::format("{} ({})", o.late_frames, FormatPercent(part));
}

}  // namespace

double LateAfterMs(const Workload& workload) {
  return workload.fps > 0 ? 1000 / workload.fps + 1 : 0;
}  // control-api.md

std::string LatenessText(const std::vector<Workload>& workloads) {
  std::string text;
  // Programs of several devices have numbered names and the same promises.
  const auto first_with_rate = [&](const Workload& workload) {
    return &workload == &*std::ranges::find_if(workloads, [&](const Workload& one) {
      return one.fps == workload.fps && one.command == workload.command;
    });
  };
  for (const Workload& workload : workloads)
    if (LateAfterMs(workload) > 0 && first_with_rate(workload))
      text += fmt::format("{}{}: {:g} fps, so a frame is late after {:.1f} ms", text.empty() ? "" : "; ", workload.name,
                          workload.fps, LateAfterMs(workload));
  return text;
}

std::string CommandText(const Workload& workload) {
  std::string text;
  for (const std::string& argument : workload.command) text += (text.empty() ? "" : " ") + argument;
  return text;
}

std::string RenderSummary(const DemoResult& result, bool color) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"PROGRAM"},
               {"POLICY"},
               {"PROMISE", kRight},
               {"GOT", kRight},
               {""},
               {"DEVICE", kRight},
               {"FPS", kRight},
               {"LATE", kRight},
               {"MEAN ms", kRight},
               {"P99 ms", kRight},
               {"MAX ms", kRight},
               {"WAIT", kRight}});
  for (std::size_t i = 0; i < result.workloads.size(); ++i) {
    if (i > 0) table.AddGap();
    for (std::size_t p = 0; p < result.phases.size(); ++p) {
      const Outcome o = Judge(result, p, i);
      const Goal goal = GoalOf(result.phases[p].policy);
      table.Add({{p == 0 ? result.workloads[i].name : "", Style::kStrong},
                 {result.phases[p].policy},
                 {fmt::format("{:.0f} %", o.promise * 100)},
                 {fmt::format("{:.1f} %", o.got * 100), StyleOfShare(o, goal)},
                 {Bar(o.got, 12), Style::kAccent},
                 {FormatPercent(o.use)},
                 {RateText(result.workloads[i], o), StyleOfRate(result.workloads[i], o, goal)},
                 {LateText(result.workloads[i], o)},
                 {fmt::format("{:.2f}", o.mean_ms)},
                 {fmt::format("{:.2f}", o.p99_ms)},
                 {fmt::format("{:.2f}", o.max_ms)},
                 {FormatPercent(o.wait)}});
    }
  }
  return table.Render(color);
}

nlohmann::json SummaryJson(const DemoResult& result) {
  nlohmann::json phases = nlohmann::json::array();
  for (std::size_t p = 0; p < result.phases.size(); ++p) {
    const Phase& phase = result.phases[p];
    nlohmann::json programs = nlohmann::json::array();
    for (std::size_t i = 0; i < result.workloads.size(); ++i) {
      const Outcome o = Judge(result, p, i);
      programs.push_back({{"name", result.workloads[i].name},
                          {"weight", result.workloads[i].weight},
                          {"fps_promise", result.workloads[i].fps},
                          {"promise", o.promise},
                          {"got", o.got},
                          {"use", o.use},
                          {"fps", o.fps},
                          {"frames", o.frames},
                          {"late_frames", o.late_frames},
                          {"frame_ms_mean", o.mean_ms},
                          {"frame_ms_p99", o.p99_ms},
                          {"frame_ms_max", o.max_ms},
                          {"wait_share", o.wait},
                          {"gpu_ns", phase.programs[i].tally.gpu_ns},
                          {"frames_lost", phase.programs[i].lost}});
    }
    phases.push_back({{"policy", phase.policy}, {"span_ns", phase.end_ns - phase.begin_ns}, {"programs", programs}});
  }
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [name, value] : result.facts) facts[name] = value;
  return {{"facts", facts}, {"emulated", result.emulated}, {"phases", phases}};
}

}  // namespace weir::cli
