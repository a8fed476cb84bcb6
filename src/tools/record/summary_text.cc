// SPDX-License-Identifier: Apache-2.0
#include "tools/record/summary_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/common/table.h"
#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

using nlohmann::ordered_json;

std::string Line(const char* name, const std::string& value) { return fmt::format("  {:<58}{:>10}\n", name, value); }

std::string PartText(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return fmt::format("{}", part);
  return fmt::format("{} of {} ({})", part, whole,
                     FormatPercent(static_cast<double>(part) / static_cast<double>(whole)));
}

std::string Plural(std::uint64_t count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string ProgramsText(const RecordingSummary& s) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < s.processes.size() && i < kNamed; ++i)
    text += fmt::format("{}{}({})", i == 0 ? "" : ", ", s.processes[i].process.program, s.processes[i].process.pid);
  if (s.processes.size() > kNamed) text += fmt::format(" and {} more", s.processes.size() - kNamed);
  return text;
}

std::string LowLines(const core::LowRates& low) {
  return Line("1 % low, percentile (1 / p99)", fmt::format("{:.1f} fps", low.percentile)) +
         Line("1 % low, mean of slowest 1 % frames", fmt::format("{:.1f} fps", low.slowest_mean)) +
         Line("1 % low, integral (worst frames filling 1 % of the time)", fmt::format("{:.1f} fps", low.integral));
}

ordered_json LowJson(const core::LowRates& low) {
  return {{"percentile", low.percentile}, {"slowest_mean", low.slowest_mean}, {"integral", low.integral}};
}

}  // namespace

std::string SummaryText(const RecordingSummary& s) {
  const core::FrameSummary& f = s.figures;
  std::string text =
      fmt::format("vGPU '{}', {}: {}", s.vgpu.name, FormatDuration(s.recorded), Plural(f.frames, "frame"));
  if (!s.processes.empty()) text += fmt::format(" of {}, {}", ProgramsText(s), Plural(s.surfaces, "surface"));
  text = Printable(text) + '\n';
  if (f.frames > 0) {
    text += Line("mean FPS (frames / time)", fmt::format("{:.1f} fps", f.fps));
    text += LowLines(f.low_1_percent);
    text += fmt::format("  {:<30}{:>38}\n", "frame time p50, p95, p99, max",
                        fmt::format("{:.2f}  {:.2f}  {:.2f}  {:.2f} ms", MillisecondsOf(f.p50), MillisecondsOf(f.p95),
                                    MillisecondsOf(f.p99), MillisecondsOf(f.max)));
    text += fmt::format("  {:<30}{:>38}\n", "input to present p50, p99",
                        fmt::format("{:.2f}  {:.2f} ms", MillisecondsOf(f.input_p50), MillisecondsOf(f.input_p99)));
    const std::string promise = PromiseText(s.vgpu);
    text += fmt::format("  {:<30}{:>38}\n", promise.empty() ? "late frames" : fmt::format("late frames ({})", promise),
                        promise.empty() ? "nothing was promised" : PartText(f.late, f.frames));
    text += fmt::format("  {:<30}{:>38}\n", "presents mispredicted (2 ms)",
                        f.predicted == 0 ? "nothing was predicted" : PartText(f.mispredicted, f.predicted));
  }
  text += Line("frames lost", fmt::format("{}", s.lost));
  for (const std::string& file : s.files) text += Printable("wrote " + file) + '\n';
  return text;
}

ordered_json SummaryJson(const RecordingSummary& s) {
  const core::FrameSummary& f = s.figures;
  ordered_json out{{"vgpu", s.vgpu.name}, {"ended_by", s.ended_by}, {"recorded_ms", MillisecondsOf(s.recorded)},
                   {"frames", f.frames},  {"frames_lost", s.lost},  {"surfaces", s.surfaces},
                   {"fps_mean", f.fps}};
  out["frame_ms"] = {{"mean", MillisecondsOf(f.mean)},
                     {"p50", MillisecondsOf(f.p50)},
                     {"p95", MillisecondsOf(f.p95)},
                     {"p99", MillisecondsOf(f.p99)},
                     {"max", MillisecondsOf(f.max)}};
  out["input_to_present_ms"] = {{"p50", MillisecondsOf(f.input_p50)}, {"p99", MillisecondsOf(f.input_p99)}};
  out["fps_low_1_percent"] = LowJson(f.low_1_percent);
  out["fps_low_0_1_percent"] = LowJson(f.low_0_1_percent);
  out["promise"] = {{"fps", s.vgpu.settings.fps}, {"latency_ms", MillisecondsOf(s.vgpu.settings.latency)}};
  out["late_frames"] = f.late;
  out["predicted"] = f.predicted;
  out["mispredicted"] = f.mispredicted;
  out["processes"] = ordered_json::array();
  for (const RecordedProcess& one : s.processes)
    out["processes"].push_back({{"pid", one.process.pid},
                                {"program", one.process.program},
                                {"api", one.process.api},
                                {"renderer", one.process.renderer},
                                {"meter", one.process.meter},
                                {"frames", one.frames}});
  out["files"] = s.files;
  return out;
}

}  // namespace weir::cli
