// SPDX-License-Identifier: Apache-2.0
// Figures of a run, computed from the model's own record. Expectations compare them with limits.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::sim {

/// The part of a run that a figure is computed from. Without a tenant: all tenants.
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
  bool of_tenant;  // needs a tenant
  double (*value)(const Window&);
};

/// The only table of figures.
std::span<const Metric> MetricTable();

/// The figure that an expectation names: of one run, or, where the metric is a fit ("fit:…") or is taken over several
/// runs ("mean:…", "most:…", "least:…"), of all runs whose labels begin with `run`. kNotFound for an unknown metric,
/// run or tenant; kInvalidArgument if it cannot be computed, as without a frame.
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
