// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/common/html.h"

namespace weir::cli {
namespace {

// In the plot's units; the page scales it to the available width.
constexpr double kWidth = 640, kHeight = 250;
constexpr double kMarginLeft = 48, kMarginRight = 10, kMarginTop = 22, kMarginBottom = 34;
constexpr double kPlotWidth = kWidth - kMarginLeft - kMarginRight, kPlotHeight = kHeight - kMarginTop - kMarginBottom;
constexpr std::array kMsTicks{0.1,  0.2,   0.5,   1.0,   2.0,    5.0,    10.0,   20.0,
                              50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0};

struct Axes {
  double span_s;
  [[nodiscard]] double X(double time_s) const {
    return kMarginLeft + kPlotWidth * std::clamp(time_s / std::max(span_s, 1e-9), 0.0, 1.0);
  }
};

/// The height of `fraction`: 0 at the bottom, 1 at the top.
double Y(double fraction) { return kMarginTop + kPlotHeight * (1 - std::clamp(fraction, 0.0, 1.0)); }

double LogFraction(double ms, MsScale scale) {
  return (std::log(std::max(ms, 1e-6)) - std::log(scale.low_ms)) / (std::log(scale.high_ms) - std::log(scale.low_ms));
}

std::string Open(std::string_view label, std::string_view y_unit) {
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<text class=\"axis\" x=\"{}\" y=\"12\">{}</text>\n",
      kWidth, kHeight, EscapeHtml(label), 4, EscapeHtml(y_unit));
}

std::string HorizontalLine(double y, const std::string& label) {
  return fmt::format(
      "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text class=\"axis end\" "
      "x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
      kMarginLeft, kWidth - kMarginRight, y, y, kMarginLeft - 6, y + 4, label);
}

double TimeStep(double span_s) {
  for (const double step : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0})
    if (span_s / step <= 8) return step;
  return span_s / 8;
}

std::string TimeAxis(const Axes& axes) {
  std::string out;
  const double step = TimeStep(axes.span_s);
  for (int i = 0; i * step <= axes.span_s * 1.0001; ++i) {
    const double x = axes.X(i * step);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/><text class=\"axis middle\" "
        "x=\"{0:.1f}\" y=\"{3:.1f}\">{4:g}</text>\n",
        x, kMarginTop, kMarginTop + kPlotHeight, kMarginTop + kPlotHeight + 14, i * step);
  }
  return out + fmt::format("<text class=\"axis middle\" x=\"{:.1f}\" y=\"{:.1f}\">time, s</text>\n",
                           kMarginLeft + kPlotWidth / 2, kHeight - 5);
}

/// Coordinates are relative with one decimal, which halves the file's size.
class Path {
 public:
  void To(double x, double y) {
    const long column = std::lround(x * 10), row = std::lround(y * 10);
    if (text_.empty())
      text_ = fmt::format("M{:g} {:g}l", static_cast<double>(column) / 10, static_cast<double>(row) / 10);
    else
      text_ +=
          fmt::format("{:g} {:g} ", static_cast<double>(column - column_) / 10, static_cast<double>(row - row_) / 10);
    column_ = column;
    row_ = row;
  }
  [[nodiscard]] std::string Closed() const { return text_ + "z"; }
  [[nodiscard]] const std::string& Open() const { return text_; }

 private:
  std::string text_;
  long column_ = 0, row_ = 0;
};

std::string Band(const FrameTimeCurve& curve, const Axes& axes, MsScale scale, std::size_t color) {
  if (curve.points.empty()) return "";
  Path outline, mean;
  for (const EnvelopePoint& p : curve.points) outline.To(axes.X(p.time_s), Y(LogFraction(p.max_ms, scale)));
  for (auto p = curve.points.rbegin(); p != curve.points.rend(); ++p)
    outline.To(axes.X(p->time_s), Y(LogFraction(p->min_ms, scale)));
  for (const EnvelopePoint& p : curve.points) mean.To(axes.X(p.time_s), Y(LogFraction(p.mean_ms, scale)));
  return fmt::format(
      "<path class=\"band s{0}\" d=\"{1}\"/><path class=\"mean s{0}\" d=\"{2}\"><title>{3}</title></path>\n", color,
      outline.Closed(), mean.Open(), EscapeHtml(curve.name));
}

std::string LateLine(const FrameTimeCurve& curve, MsScale scale, std::size_t color) {
  if (curve.late_after_ms <= 0) return "";
  const double y = Y(LogFraction(curve.late_after_ms, scale));
  return fmt::format(
      "<line class=\"promise s{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"><title>{}: late after "
      "{:.1f} ms</title></line>\n",
      color, kMarginLeft, kWidth - kMarginRight, y, y, EscapeHtml(curve.name), curve.late_after_ms);
}

/// The area between the running sums `below` and `above`, as steps: a bin is an average, not a point.
std::string StackedArea(const std::vector<double>& below, const std::vector<double>& above, const Axes& axes,
                        double bin_s, std::size_t color) {
  Path outline;
  for (std::size_t i = 0; i < above.size(); ++i)
    for (const std::size_t edge : {i, i + 1}) outline.To(axes.X(static_cast<double>(edge) * bin_s), Y(above[i]));
  for (std::size_t i = below.size(); i-- > 0;)
    for (const std::size_t edge : {i + 1, i}) outline.To(axes.X(static_cast<double>(edge) * bin_s), Y(below[i]));
  return fmt::format("<path class=\"area s{}\" d=\"{}\"/>\n", color, outline.Closed());
}

}  // namespace

MsScale ScaleFor(const std::vector<std::vector<FrameTimeCurve>>& plots) {
  double low = 1e9, high = 0;
  for (const auto& curves : plots)
    for (const FrameTimeCurve& curve : curves)
      for (const EnvelopePoint& p : curve.points) {
        low = std::min(low, p.min_ms);
        high = std::max(high, p.max_ms);
      }
  if (high <= 0) return {};
  MsScale scale{kMsTicks.front(), kMsTicks.back()};
  for (const double tick : kMsTicks)
    if (tick <= low) scale.low_ms = tick;
  for (auto tick = kMsTicks.rbegin(); tick != kMsTicks.rend(); ++tick)
    if (*tick >= high) scale.high_ms = *tick;
  if (scale.high_ms <= scale.low_ms) scale.high_ms = scale.low_ms * 10;
  return scale;
}

std::string FrameTimePlot(const std::vector<FrameTimeCurve>& curves, double span_s, MsScale scale) {
  const Axes axes{span_s};
  std::string out = Open("Frame time over time", "frame time, ms (logarithmic)");
  for (const double tick : kMsTicks)
    if (tick >= scale.low_ms && tick <= scale.high_ms)
      out += HorizontalLine(Y(LogFraction(tick, scale)), fmt::format("{:g}", tick));
  out += TimeAxis(axes);
  for (std::size_t i = 0; i < curves.size(); ++i) out += Band(curves[i], axes, scale, i % kSeriesColors);
  for (std::size_t i = 0; i < curves.size(); ++i) out += LateLine(curves[i], scale, i % kSeriesColors);
  return out + "</svg>\n";
}

std::string SharePlot(const std::vector<std::vector<double>>& shares, const std::vector<double>& promises, double bin_s,
                      double span_s) {
  const Axes axes{span_s};
  std::string out = Open("Share of GPU time over time", "share of GPU time, %");
  std::vector<double> below(shares.empty() ? 0 : shares[0].size(), 0.0);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    std::vector<double> above = below;
    for (std::size_t bin = 0; bin < above.size(); ++bin) above[bin] += shares[i][bin];
    out += StackedArea(below, above, axes, bin_s, i % kSeriesColors);
    below = std::move(above);
  }
  for (const int percent : {0, 25, 50, 75, 100}) out += HorizontalLine(Y(percent / 100.0), fmt::format("{}", percent));
  out += TimeAxis(axes);
  double edge = 0;
  for (std::size_t i = 0; i + 1 < promises.size(); ++i) {
    edge += promises[i];
    out += fmt::format("<line class=\"edge\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n",
                       kMarginLeft, kWidth - kMarginRight, Y(edge));
  }
  return out + "</svg>\n";
}

}  // namespace weir::cli
