// SPDX-License-Identifier: Apache-2.0
// The report's plots, as SVG inside HTML. Colours come from the page's style sheet by class ("s0", "s1", …), so that
// one file reads well on light and on dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/demo/series.h"

namespace weir::cli {

/// How many programs the style sheet has colours for; more share them.
inline constexpr std::size_t kSeriesColors = 6;

struct FrameTimeCurve {
  std::string name;
  std::vector<EnvelopePoint> points;
  double late_after_ms = 0;  // a dashed line; 0: none
};

/// A logarithmic scale that is the same for all policies, so that plots can be compared.
struct MsScale {
  double low_ms = 1, high_ms = 100;
};
MsScale ScaleFor(const std::vector<std::vector<FrameTimeCurve>>& plots);

/// For each program a band from the fastest to the slowest frame of each moment, with their mean as a line in it.
std::string FrameTimePlot(const std::vector<FrameTimeCurve>& curves, double span_s, MsScale scale);

/// For each program its part of the GPU time over time, one on top of the other; dashed: where the promises meet.
std::string SharePlot(const std::vector<std::vector<double>>& shares, const std::vector<double>& promises, double bin_s,
                      double span_s);

/// Text that is safe in HTML and in attributes.
std::string EscapeHtml(std::string_view text);

}  // namespace weir::cli
