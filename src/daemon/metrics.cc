// SPDX-License-Identifier: Apache-2.0
// The text for Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/
#include "daemon/metrics.h"

#include <fmt/format.h>

namespace weir::daemon {
namespace {

/// A device's model is its vendor's text; a quotation mark in it must not end the label.
std::string LabelValue(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

/// `a="1",b="2"`
std::string LabelText(const std::vector<const char*>& names, const std::vector<std::string>& values) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += fmt::format("{}{}=\"{}\"", i == 0 ? "" : ",", names[i], LabelValue(values[i]));
  return out;
}

/// Writes the lines of one metric after another. The labels of vGPUs are the same in each.
class MetricLines {
 public:
  MetricLines(const NodeFigures& node, std::string& out) : node_(node), out_(out) {
    for (const VgpuReport& vgpu : node_.vgpus)
      vgpu_labels_.push_back(LabelText({"vgpu", "device"}, {vgpu.status.name, vgpu.status.device}));
  }
  void Write(const MetricEntry& metric) {
    out_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name, metric.help, NameOf(metric.type));
    metric_ = &metric;
    std::visit(*this, metric.read);
  }

  void operator()(double (*read)(const VgpuReport&)) const {
    for (std::size_t i = 0; i < node_.vgpus.size(); ++i) Line(vgpu_labels_[i], read(node_.vgpus[i]));
  }
  void operator()(core::CumulativeCounts (*read)(const VgpuReport&)) const {
    for (std::size_t i = 0; i < node_.vgpus.size(); ++i) Histogram(vgpu_labels_[i], read(node_.vgpus[i]));
  }
  void operator()(double (*read)(const engine::DeviceStatus&)) const {
    for (const engine::DeviceStatus& device : node_.devices)
      Line(LabelText({"device"}, {device.spec.name}), read(device));
  }
  void operator()(double (*read)(const NodeFigures&)) const { Line("", read(node_)); }
  void operator()(const OwnLabels& own) const {
    for (const LabelledValue& one : own.values(node_)) Line(LabelText(own.names(), one.labels), one.value);
  }

 private:
  void Line(const std::string& labels, double value) const {
    if (labels.empty())
      out_ += fmt::format("{} {}\n", metric_->name, value);
    else
      out_ += fmt::format("{}{{{}}} {}\n", metric_->name, labels, value);
  }
  void Histogram(const std::string& labels, const core::CumulativeCounts& all) const {
    for (std::size_t i = 0; i < all.bounds.size(); ++i)
      out_ += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", metric_->name, labels, ExactSeconds(all.bounds[i]),
                          all.counts[i]);
    out_ += fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", metric_->name,
                        labels, all.counts.back(), ExactSeconds(all.sum));
  }

  const NodeFigures& node_;
  std::string& out_;
  std::vector<std::string> vgpu_labels_;
  const MetricEntry* metric_ = nullptr;  // that is being written
};

}  // namespace

const char* NameOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return "counter";
    case MetricType::kGauge: return "gauge";
    case MetricType::kHistogram: return "histogram";
  }
  return "untyped";
}

std::vector<const char*> LabelsOf(const MetricEntry& metric) {
  if (const auto* own = std::get_if<OwnLabels>(&metric.read)) return own->names();
  if (std::holds_alternative<double (*)(const NodeFigures&)>(metric.read)) return {};
  if (std::holds_alternative<double (*)(const engine::DeviceStatus&)>(metric.read)) return {"device"};
  return {"vgpu", "device"};
}

std::vector<double> BucketsOf(const MetricEntry& metric) {
  std::vector<double> bounds;
  if (const auto* read = std::get_if<core::CumulativeCounts (*)(const VgpuReport&)>(&metric.read))
    for (const Duration bound : (*read)(VgpuReport{}).bounds) bounds.push_back(ExactSeconds(bound));
  return bounds;
}

std::string MetricsText(const NodeFigures& node) {
  std::string out;
  MetricLines lines(node, out);
  for (const MetricEntry& metric : MetricTable()) lines.Write(metric);
  return out;
}

}  // namespace weir::daemon
