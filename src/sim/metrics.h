// SPDX-License-Identifier: Apache-2.0
// Figures of a run, from the model's own record: what expectations are about.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::sim {

/// The part of a run that a figure is about. Tenant null: all of them.
struct Window {
  const RunRecord* run = nullptr;
  const TenantRecord* tenant = nullptr;
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
  double parameter = 0;
  [[nodiscard]] double Seconds() const { return static_cast<double>(to_ns - from_ns) * 1e-9; }
};

struct Metric {
  std::string_view name;
  std::string_view unit;
  std::string_view summary;
  bool of_tenant;  // needs one
  double (*value)(const Window&);
};

/// The one table of figures.
std::span<const Metric> MetricTable();

/// A figure as an expectation asks for it: of a run, or of all runs whose labels begin with it where the metric fits a
/// curve. kNotFound for a metric, run or tenant that there is not, kInvalidArgument where it can't be reckoned (no
/// frame).
Result<double> Measure(std::span<const RunRecord> runs, const Expectation& expectation);

struct Verdict {
  double value = 0;
  bool met = false;
};
Result<Verdict> Judge(std::span<const RunRecord> runs, const Expectation& expectation);

/// y = a + b·x by least squares.
struct Line {
  double a = 0, b = 0, r2 = 0;
};
Line FitLine(std::span<const std::pair<double, double>> points);

}  // namespace weir::sim
