// SPDX-License-Identifier: Apache-2.0
// The report's plots, as SVG inside HTML. Colours come from the page's style sheet by class ("s0", "s1", …), so that
// one file reads well on light and on dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/demo/series.h"

namespace weir::cli {

/// The number of programs for which the style sheet has colours; further programs share them.
inline constexpr std::size_t kSeriesColors = 6;

struct FrameTimeCurve {
  std::string name;
  std::vector<EnvelopePoint> points;
  double late_after_ms = 0;  // drawn as a dashed line; 0: none
};

/// A logarithmic scale, the same for all policies, so that plots can be compared.
struct MsScale {
  double low_ms = 1, high_ms = 100;
};
MsScale ScaleFor(const std::vector<std::vector<FrameTimeCurve>>& plots);

/// A band for each program from the fastest to the slowest frame of each moment, with the mean as a line.
std::string FrameTimePlot(const std::vector<FrameTimeCurve>& curves, double span_s, MsScale scale);

/// Each program's fraction of the GPU time over time, stacked; dashed lines mark the promises.
std::string SharePlot(const std::vector<std::vector<double>>& shares, const std::vector<double>& promises, double bin_s,
                      double span_s);

}  // namespace weir::cli
