// SPDX-License-Identifier: Apache-2.0
// A scenario's page: the expectations, the results, and frames/s over time for each run.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/common/html.h"
#include "tools/sim/play.h"

namespace weir::cli {
namespace {

constexpr std::array kColors{"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f"};
constexpr double kFpsWidth = 760, kFpsHeight = 220, kFpsLeft = 46, kFpsTop = 10, kFpsBottom = 34;
constexpr std::size_t kCurvesMax = 8;
constexpr std::size_t kRunsMax = 12;

/// Frames/s of each tenant by whole second.
std::string FpsPlot(const sim::RunRecord& run) {
  const auto seconds = static_cast<std::size_t>(run.span_ns / 1'000'000'000);
  if (seconds < 2) return "";
  std::vector<std::vector<double>> curves;
  double most = 1;
  for (const sim::TenantRecord& tenant : run.tenants) {
    if (curves.size() == kCurvesMax) break;
    std::vector<double>& fps = curves.emplace_back(seconds);
    for (const sim::FrameRecord& frame : tenant.frames)
      if (const auto s = static_cast<std::size_t>(frame.end_ns / 1'000'000'000); s < seconds) ++fps[s];
    most = std::max(most, *std::ranges::max_element(fps));
  }
  const auto x_of = [&](double s) { return kFpsLeft + s / static_cast<double>(seconds) * (kFpsWidth - kFpsLeft - 8); };
  const auto y_of = [&](double v) {
    return kFpsHeight - kFpsBottom - v / (most * 1.05) * (kFpsHeight - kFpsTop - kFpsBottom);
  };
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">", kFpsWidth, kFpsHeight + 18);
  for (int i = 0; i <= 4; ++i) {
    const double v = most * i / 4;
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:.0f}</text>",
        kFpsLeft, kFpsWidth - 8, y_of(v), y_of(v), kFpsLeft - 5, y_of(v) + 4, v);
    const double s = static_cast<double>(seconds) * i / 4;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g} s</text>", x_of(s),
                       kFpsHeight - kFpsBottom + 15, s);
  }
  for (std::size_t c = 0; c < curves.size(); ++c) {
    std::string points;
    for (std::size_t s = 0; s < seconds; ++s)
      points += fmt::format("{:.1f},{:.1f} ", x_of(static_cast<double>(s) + 0.5), y_of(curves[c][s]));
    out += fmt::format(
        "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"1.4\" points=\"{1}\"/><rect x=\"{2}\" y=\"{3}\" "
        "width=\"10\" height=\"10\" fill=\"{0}\"/><text x=\"{4}\" y=\"{5}\">{6}</text>",
        kColors[c], points, kFpsLeft + static_cast<double>(c) * 90, kFpsHeight,
        kFpsLeft + static_cast<double>(c) * 90 + 14, kFpsHeight + 9, EscapeHtml(run.tenants[c].name));
  }
  return out + "</svg>";
}

}  // namespace

std::string ScenarioPage(const Played& played, const std::vector<Judged>& judged) {
  const sim::Scenario& s = played.scenario;
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>"
      "body{{font:15px/1.5 system-ui,sans-serif;max-width:820px;margin:2rem auto;padding:0 1rem;color:#1f2937}}"
      "table{{border-collapse:collapse}}td,th{{padding:.2rem .7rem;border-bottom:1px solid #e5e7eb;text-align:right}}"
      "td:first-child,th:first-child{{text-align:left}}svg{{width:100%}}svg text{{font-size:11px;fill:#374151}}"
      ".grid{{stroke:#e5e7eb}}.ok{{color:#047857}}.bad{{color:#b91c1c;font-weight:600}}</style></head><body>\n"
      "<h1>{0}</h1><p><b>{1}</b> ({2}), seed {3}.</p><p>{4}</p>\n",
      EscapeHtml(s.name), EscapeHtml(s.title), EscapeHtml(s.source), played.seed, EscapeHtml(s.about));
  out += "<table><tr><th>expected</th><th>paper</th><th>ours</th><th>range</th><th></th></tr>\n";
  for (const Judged& one : judged)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td></tr>\n",
                       EscapeHtml(WhatText(*one.expectation)), EscapeHtml(one.expectation->paper),
                       one.fault.empty() ? fmt::format("{:.4g}", one.value) : EscapeHtml(one.fault),
                       EscapeHtml(RangeText(*one.expectation)), one.met ? "ok" : "bad", one.met ? "met" : "not met");
  out += "</table>\n";
  std::size_t shown = 0;
  for (const sim::RunRecord& run : played.runs) {
    if (++shown > kRunsMax || s.migration || s.cluster) break;  // tasks and kernels run once, so they have no rate
    out += fmt::format("<h2>{}</h2>{}\n", EscapeHtml(run.label), FpsPlot(run));
  }
  return out + "</body></html>\n";
}

}  // namespace weir::cli
