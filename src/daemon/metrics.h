// SPDX-License-Identifier: Apache-2.0
// The metrics of a node in Prometheus' format. One table says what each metric is and how it is read; the text for
// Prometheus, `weir metrics --list` and docs/reference/metrics.md come from it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/stats/bucket_counts.h"
#include "daemon/node.h"

namespace weir::daemon {

/// What the metrics are made of, at one moment.
struct NodeFigures {
  std::vector<VgpuReport> vgpus;
  std::vector<engine::DeviceStatus> devices;
  std::map<std::string, std::uint64_t> events;  // number of events of each kind
  std::uint64_t looks = 0;
  std::int64_t started_utc_ms = 0;  // since 1970
  bool saved = true;                // the last change is on the disk
};

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };
const char* NameOf(MetricType type);

/// A value of a metric with labels of its own.
struct LabelledValue {
  std::vector<std::string> labels;  // values, in the order of the metric's labels
  double value = 0;
};
struct OwnLabels {
  std::vector<const char*> (*names)();
  std::vector<LabelledValue> (*values)(const NodeFigures&);
};
/// How a metric is read: for each vGPU, as a number or as a histogram of durations; for each device; once; or with
/// labels of its own.
using MetricReader = std::variant<double (*)(const VgpuReport&), core::CumulativeCounts (*)(const VgpuReport&),
                                  double (*)(const engine::DeviceStatus&), double (*)(const NodeFigures&), OwnLabels>;

struct MetricEntry {
  const char* name;
  MetricType type;
  const char* unit;  // as the name says it; empty: a plain number
  const char* help;  // one line without a full stop
  MetricReader read;
};

/// The value nearest to its decimal fraction, so that 5500 µs is written 0.0055.
inline double ExactSeconds(Duration value) { return static_cast<double>(value.count()) / 1e9; }

std::span<const MetricEntry> MetricTable();

/// The names of its labels, without `le` of a histogram's buckets.
std::vector<const char*> LabelsOf(const MetricEntry& metric);

/// The upper bounds of a histogram's buckets, in seconds, without the last one, which has none. Empty for other types.
std::vector<double> BucketsOf(const MetricEntry& metric);

/// All metrics, as Prometheus reads them.
std::string MetricsText(const NodeFigures& node);

}  // namespace weir::daemon
