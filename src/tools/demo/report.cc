// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/common/html.h"
#include "cli/common/text_units.h"
#include "tools/demo/series.h"
#include "tools/demo/summary.h"
#include "tools/demo/svg_plot.h"

namespace weir::cli {
namespace {

constexpr std::int64_t kBinNs = 250'000'000;
constexpr std::size_t kPlotSlices = 300;  // slices of a frame-time plot: two units of its width each

// Colours that colour-blind readers can distinguish (after Okabe and Ito), on light and on dark.
constexpr std::string_view kStyle = R"(
:root { --ink: #1d2329; --faint: #66717c; --line: #dde2e7; --paper: #ffffff; --card: #f6f8fa; --good: #11734b;
  --off: #a85400;
  --s0: #1f6fc4; --s1: #d9720a; --s2: #0f8a68; --s3: #b0559a; --s4: #8a6d00; --s5: #55606b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --faint: #98a3ae; --line: #343c44;
  --paper: #14181c; --card: #1c2228;
  --good: #5fd0a0; --off: #f0a860; --s0: #6caef5; --s1: #f2a154; --s2: #4ec9a3; --s3: #dd92c8; --s4: #d9bf4f;
  --s5: #aab4be; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 48px; max-width: 1320px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 32px 0 8px; }
h3 { font-size: 14px; margin: 0 0 6px; }
p { margin: 6px 0; max-width: 90ch; } .faint { color: var(--faint); font-size: 13px; }
code { font: 13px ui-monospace, "DejaVu Sans Mono", monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 12px 0; font-size: 13px; }
dt { color: var(--faint); } dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 7px; text-align: right; white-space: nowrap; }
th { color: var(--faint); font-weight: 600; font-size: 13px; }
th.text, td.text { text-align: left; } thead th { border-bottom: 2px solid var(--line); }
tbody tr:first-child > * { border-top: 1px solid var(--line); } tbody td.name { font-weight: 600; vertical-align: top; }
.good { color: var(--good); } .off { color: var(--off); }
.bar { position: relative; width: 120px; height: 12px; background: var(--line); border-radius: 2px; }
.bar i { position: absolute; left: 0; top: 0; bottom: 0; border-radius: 2px; }
.bar b { position: absolute; top: -3px; bottom: -3px; width: 2px; background: var(--ink); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 6px 0 0; vertical-align: -1px; }
.legend span { margin-right: 18px; white-space: nowrap; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 12px; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
svg { display: block; width: 100%; height: auto; }
svg .axis { fill: var(--faint); font-size: 11px; } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--line); stroke-width: 1; } svg .band { fill: currentColor; fill-opacity: .22; stroke: none; }
svg .mean { fill: none; stroke: currentColor; stroke-width: 1.4; stroke-linejoin: round; }
svg .promise { stroke: currentColor; stroke-width: 1.4; stroke-dasharray: 6 4; }
svg .edge { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 6 4; }
svg .area { fill: currentColor; fill-opacity: .75; }
)";

std::string ColorRules() {
  std::string out;
  for (std::size_t i = 0; i < kSeriesColors; ++i)
    out += fmt::format("svg .s{0} {{ color: var(--s{0}); }} .k{0} {{ background: var(--s{0}); }}\n", i);
  return out;
}

using ProgramList = std::vector<std::size_t>;  // indexes into the workloads

/// Programs on one device get different colours.
std::size_t ColorOf(const DemoResult& result, std::size_t program) {
  for (const ProgramList& programs : result.ByDevice())
    if (const auto at = std::ranges::find(programs, program); at != programs.end())
      return static_cast<std::size_t>(at - programs.begin()) % kSeriesColors;
  return 0;
}

std::string Facts(const DemoResult& result) {
  std::string out = "<dl>\n";
  for (const auto& [name, value] : result.facts)
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", EscapeHtml(name), EscapeHtml(value));
  for (const Workload& workload : result.workloads)
    out += fmt::format("<dt>{}</dt><dd>{}weight {}, <code>{}</code></dd>\n", EscapeHtml(workload.name),
                       workload.device.empty() ? "" : EscapeHtml(workload.device) + ", ", workload.weight,
                       EscapeHtml(CommandText(workload)));
  return out + "</dl>\n";
}

std::string Legend(const DemoResult& result, const ProgramList& programs) {
  std::string out = "<p class=\"legend\">";
  for (std::size_t i = 0; i < programs.size(); ++i)
    out += fmt::format("<span><i class=\"key k{}\"></i>{}</span>", i % kSeriesColors,
                       EscapeHtml(result.workloads[programs[i]].name));
  return out + "</p>\n";
}

/// The received share as a bar, with a mark at the promise.
std::string ShareBar(const Outcome& o, std::size_t color) {
  return fmt::format(
      "<div class=\"bar\"><i class=\"k{}\" style=\"width:{:.1f}%\"></i><b style=\"left:{:.1f}%\"></b></div>", color,
      std::clamp(o.got, 0.0, 1.0) * 100, o.promise * 100);
}

std::string PhaseRow(const DemoResult& result, std::size_t program, std::size_t p) {
  const Outcome o = Judge(result, p, program);
  const Workload& workload = result.workloads[program];
  const Goal goal = GoalOf(result.phases[p].policy);
  const bool near = o.got > o.promise - 0.03 && o.got < o.promise + 0.03;
  std::string out = "<tr>";
  if (p == 0)
    out += fmt::format("<td class=\"text name\" rowspan=\"{}\"><i class=\"key k{}\"></i>{}</td>", result.phases.size(),
                       ColorOf(result, program), EscapeHtml(workload.name));
  const double late_part = o.frames == 0 ? 0 : static_cast<double>(o.late_frames) / static_cast<double>(o.frames);
  const std::string late =
      LateAfterMs(workload) > 0 ? fmt::format("{} ({})", o.late_frames, FormatPercent(late_part)) : "–";
  const char* rate_class = goal != Goal::kRates || workload.fps <= 0 ? "" : RateIsKept(workload, o) ? "good" : "off";
  const std::string rate = fmt::format("<td class=\"{}\">{:.1f}{}</td>", rate_class, o.fps,
                                       workload.fps > 0 ? fmt::format(" of {:g}", workload.fps) : "");
  out += fmt::format(
      "<td class=\"text\">{}</td><td>{:.0f} %</td><td class=\"{}\">{:.1f} "
      "%</td><td>{}</td><td>{}</td>{}<td>{}</td><td>{:.2f}</td>"
      "<td>{:.2f}</td><td>{:.2f}</td><td>{}</td></tr>\n",
      EscapeHtml(result.phases[p].policy), o.promise * 100,
      goal != Goal::kShares ? ""
      : near                ? "good"
                            : "off",
      o.got * 100, ShareBar(o, ColorOf(result, program)), FormatPercent(o.use), rate, late, o.mean_ms, o.p99_ms,
      o.max_ms, FormatPercent(o.wait));
  return out;
}

std::string Comparison(const DemoResult& result) {
  std::string out = result.emulated ? "<p class=\"faint\">Every figure of this table is emulated.</p>\n" : "";
  out +=
      "<div class=\"scroll\"><table>\n<thead><tr><th class=\"text\">program</th><th "
      "class=\"text\">policy</th><th>promise</th><th>got</th><th></th><th>of device</th>"
      "<th>FPS</th><th>late frames</th><th>mean, ms</th><th>p99, ms</th><th>max, ms</th><th>wait</th></tr></thead>\n";
  for (std::size_t program = 0; program < result.workloads.size(); ++program) {
    out += "<tbody>\n";
    for (std::size_t p = 0; p < result.phases.size(); ++p) out += PhaseRow(result, program, p);
    out += "</tbody>\n";
  }
  const std::string lateness = LatenessText(result.workloads);
  return out +
         "</table></div>\n<p class=\"faint\">Promise: the weight's part of all weights. Got: part of the GPU time that "
         "all programs of the device used; the mark on "
         "the bar is the promise. Of device: part of what the device could give. A policy that only caps (reserve) "
         "leaves one program's unused time idle: another's part of the used time can then exceed its promise, "
         "its part of the device can't. Frame time: between the returns of "
         "two presents; mean, p99 (nearest rank) and max "
         "over all frames. Wait: of wall time, "
         "spent at the gate. Late: " +
         EscapeHtml(lateness.empty() ? "nothing is promised" : lateness) + ".</p>\n";
}

std::vector<FrameTimeCurve> CurvesOf(const DemoResult& result, const Phase& phase, const ProgramList& programs) {
  std::vector<FrameTimeCurve> curves;
  for (const std::size_t i : programs)
    curves.push_back({result.workloads[i].name,
                      Envelope(phase.programs[i].frames, phase.begin_ns, phase.end_ns, kPlotSlices),
                      LateAfterMs(result.workloads[i])});
  return curves;
}

std::string LostNote(const Phase& phase) {
  std::int64_t lost = 0;
  for (const ProgramPhase& program : phase.programs) lost += program.lost;
  return lost == 0
             ? ""
             : fmt::format("<p class=\"faint\">{} frames were counted but came too fast to be recorded singly.</p>\n",
                           lost);
}

std::string RateVerdict(const DemoResult& result, std::size_t p) {
  std::string text;
  for (std::size_t i = 0; i < result.workloads.size(); ++i) {
    const Workload& workload = result.workloads[i];
    if (workload.fps <= 0) continue;
    const Outcome o = Judge(result, p, i);
    text += fmt::format("{}{}: {:.1f} of {:g} frames/s{}", text.empty() ? "" : "; ", EscapeHtml(workload.name), o.fps,
                        workload.fps, RateIsKept(workload, o) ? "" : " (not kept)");
  }
  return fmt::format("<p>Rates{}: {}.</p>\n", result.Mark(), text);
}

/// The share that missed its promise by most. For a policy that keeps rates: how these were kept.
std::string Verdict(const DemoResult& result, std::size_t p) {
  if (GoalOf(result.phases[p].policy) == Goal::kRates) return RateVerdict(result, p);
  std::string text;
  double worst = -1;
  for (std::size_t i = 0; i < result.workloads.size(); ++i) {
    const Outcome o = Judge(result, p, i);
    const double off = std::abs(o.got - o.promise);
    if (off <= worst) continue;
    worst = off;
    text = fmt::format("<p>Farthest from its promise{}: {}, {:.1f} % instead of {:.0f} %.</p>\n", result.Mark(),
                       EscapeHtml(result.workloads[i].name), o.got * 100, o.promise * 100);
  }
  return text;
}

/// The section of one device's programs under one policy.
std::string DeviceSection(const DemoResult& result, std::size_t p, const ProgramList& programs, bool named,
                          MsScale scale) {
  const Phase& phase = result.phases[p];
  const double span_s = static_cast<double>(phase.end_ns - phase.begin_ns) * 1e-9;
  std::vector<double> promises;
  for (const std::size_t program : programs) promises.push_back(Judge(result, p, program).promise);
  const std::string name =
      named ? fmt::format("<h3>{}</h3>\n", EscapeHtml(result.workloads[programs.front()].device)) : "";
  return fmt::format(
      "{0}{1}<div class=\"pair\">\n<figure><h3>Share of GPU time{2}</h3>\n{3}</figure>\n"
      "<figure><h3>Frame times{2}</h3>\n{4}</figure>\n</div>\n",
      name, Legend(result, programs), result.Mark(),
      SharePlot(ShareBins(phase, programs, kBinNs), promises, static_cast<double>(kBinNs) * 1e-9, span_s),
      FrameTimePlot(CurvesOf(result, phase, programs), span_s, scale));
}

std::string PhaseSection(const DemoResult& result, std::size_t p, MsScale scale) {
  const Phase& phase = result.phases[p];
  const std::vector<ProgramList> devices = result.ByDevice();
  std::string out = fmt::format("<section>\n<h2>{}</h2>\n{}", EscapeHtml(phase.policy), Verdict(result, p));
  for (const ProgramList& programs : devices) out += DeviceSection(result, p, programs, devices.size() > 1, scale);
  return out + LostNote(phase) + "</section>\n";
}

/// One scale for all plots, so that they can be compared.
MsScale ScaleOf(const DemoResult& result) {
  std::vector<std::vector<FrameTimeCurve>> curves;
  for (const Phase& phase : result.phases)
    for (const ProgramList& programs : result.ByDevice()) curves.push_back(CurvesOf(result, phase, programs));
  return ScaleFor(curves);
}

}  // namespace

std::string RenderReport(const DemoResult& result) {
  const MsScale scale = ScaleOf(result);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>Weir demo{2}</title>\n<style>{0}{1}</style>\n</head>\n<body>\n<h1>Weir demo{2}</h1>\n",
      kStyle, ColorRules(), result.Mark());
  const std::size_t devices = result.ByDevice().size();
  out += fmt::format(
      "<p>{} unmodified programs shared {}{}. The policy was changed while they ran; nothing was restarted.</p>\n",
      result.workloads.size(), devices == 1 ? "one device" : std::to_string(devices) + " devices", result.Mark());
  if (result.emulated)
    out +=
        "<p>The programs, the daemon and its decisions are real. The timing of the GPUs is modelled, so every figure "
        "of "
        "this report is emulated.</p>\n";
  out += Facts(result) + fmt::format("<h2>Promised and got{}</h2>\n", result.Mark()) + Comparison(result);
  for (std::size_t p = 0; p < result.phases.size(); ++p) out += PhaseSection(result, p, scale);
  out +=
      "<p class=\"faint\">Share plots: bins of 0.25 s; dashed: where the promises meet. Frame-time plots: the band "
      "reaches from the fastest to the slowest "
      "frame of each moment, the line is their mean; dashed: frames above it are late.</p>\n</body>\n</html>\n";
  return out;
}

}  // namespace weir::cli
