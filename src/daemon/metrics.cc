// SPDX-License-Identifier: Apache-2.0
// Prometheus text, from the tables of metrics here and from the fields of settings and of executors' statistics.
#include <fmt/format.h>

#include <array>

#include "daemon/control.h"

namespace weir::daemon {
namespace {

struct VgpuMetric {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const VgpuReport&);
};

constexpr std::array kVgpuMetrics{
    VgpuMetric{"weir_vgpu_frames_total", "counter", "Frames presented",
               [](const VgpuReport& v) { return static_cast<double>(v.status.totals.frames); }},
    VgpuMetric{"weir_vgpu_tasks_total", "counter", "Frames presented and OpenCL tasks ended",
               [](const VgpuReport& v) { return static_cast<double>(v.status.totals.tasks); }},
    VgpuMetric{"weir_vgpu_late_frames_total", "counter", "Frames later than promised",
               [](const VgpuReport& v) { return static_cast<double>(v.status.totals.late_frames); }},
    VgpuMetric{"weir_vgpu_broken_frames_total", "counter", "Frames later than promised because they waited for others",
               [](const VgpuReport& v) { return static_cast<double>(v.status.totals.broken_frames); }},
    VgpuMetric{"weir_vgpu_gpu_seconds_total", "counter", "GPU time charged, in the device's unit",
               [](const VgpuReport& v) { return SecondsOf(v.status.gpu_total); }},
    VgpuMetric{"weir_vgpu_wait_seconds_total", "counter", "Time waited at the gate, summed over threads",
               [](const VgpuReport& v) { return SecondsOf(v.status.totals.wait); }},
    VgpuMetric{"weir_vgpu_fps", "gauge", "Frames or tasks per second of the fastest loop, last second",
               [](const VgpuReport& v) { return v.status.window.fps; }},
    VgpuMetric{"weir_vgpu_frame_seconds_p99", "gauge", "99th percentile of frame latency, last seconds",
               [](const VgpuReport& v) { return SecondsOf(v.status.window.p99); }},
    VgpuMetric{"weir_vgpu_pace_seconds_total", "counter", "Time frames were delayed to keep their pace",
               [](const VgpuReport& v) { return SecondsOf(v.status.totals.pace); }},
    VgpuMetric{"weir_vgpu_presents_predicted_total", "counter", "Presents whose duration was predicted",
               [](const VgpuReport& v) { return static_cast<double>(v.status.totals.predicted); }},
    VgpuMetric{"weir_vgpu_presents_mispredicted_total", "counter", "Of these, predictions off by more than 2 ms",
               [](const VgpuReport& v) { return static_cast<double>(v.status.totals.mispredicted); }},
    VgpuMetric{"weir_vgpu_gpu_share", "gauge", "Share of the GPU time used on the device, last second",
               [](const VgpuReport& v) { return v.status.gpu_share; }},
    VgpuMetric{"weir_vgpu_gpu_use", "gauge", "GPU time used per second of device capacity, last second",
               [](const VgpuReport& v) { return v.status.gpu_use; }},
    VgpuMetric{"weir_vgpu_cap_now", "gauge", "Its cap at this moment, fraction of the device",
               [](const VgpuReport& v) { return v.status.cap_now.Fraction(); }},
    VgpuMetric{"weir_vgpu_processes", "gauge", "Attached processes",
               [](const VgpuReport& v) { return static_cast<double>(v.processes.size()); }},
    VgpuMetric{"weir_vgpu_records_lost_total", "counter", "Frame records that did not fit the ring",
               [](const VgpuReport& v) { return static_cast<double>(v.status.records_lost); }},
    VgpuMetric{"weir_vgpu_records_bad_total", "counter", "Frame records that made no sense",
               [](const VgpuReport& v) { return static_cast<double>(v.status.records_bad); }},
    VgpuMetric{"weir_vgpu_samples_bad_total", "counter", "Allowances that made no sense",
               [](const VgpuReport& v) { return static_cast<double>(v.status.samples_bad); }},
    VgpuMetric{"weir_vgpu_memory_held_slots", "gauge", "Slots of 64 MiB that it holds of elastic memory",
               [](const VgpuReport& v) -> double { return v.status.memory.elastic ? v.status.memory.limit : 0; }},
    VgpuMetric{"weir_vgpu_memory_here_slots", "gauge", "Of these, its own now",
               [](const VgpuReport& v) -> double { return v.status.memory.here; }},
    VgpuMetric{"weir_vgpu_fail_opens_total", "counter", "Times an agent went on without the daemon",
               [](const VgpuReport& v) { return static_cast<double>(v.fail_opens); }},
};

// Label values need no escaping, because the names of vGPUs and devices are checked when these are created.
template <typename Value>
std::string Lines(const char* name, const char* type, const char* help, const std::vector<VgpuReport>& vgpus,
                  Value value) {
  std::string out = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  for (const VgpuReport& vgpu : vgpus)
    out += fmt::format("{}{{vgpu=\"{}\",device=\"{}\"}} {}\n", name, vgpu.status.name, vgpu.status.device, value(vgpu));
  return out;
}

double MetricValue(Duration value) { return SecondsOf(value); }
template <typename Value>
double MetricValue(Value value) {
  return static_cast<double>(proto::NumberOf(value));
}

using engine::DeviceStatus;

struct DeviceMetric {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const DeviceStatus&);
};

constexpr std::array kDeviceMetrics{
    DeviceMetric{"weir_device_gpu_seconds_total", "counter", "GPU time charged on the device",
                 [](const DeviceStatus& d) { return SecondsOf(d.gpu_total); }},
    DeviceMetric{"weir_device_sold", "gauge", "Ceilings sold, in devices, best effort not counted",
                 [](const DeviceStatus& d) { return d.sold; }},
    DeviceMetric{"weir_device_load", "gauge", "The device's fraction that promises need, last report",
                 [](const DeviceStatus& d) { return d.load; }},
    DeviceMetric{"weir_device_promised_need", "gauge",
                 "The device's fraction that promised rates and shares need, as far as their cost is known",
                 [](const DeviceStatus& d) { return d.promised; }},
    DeviceMetric{"weir_device_sellable", "gauge", "The highest cap that can be sold now, fraction of the device",
                 [](const DeviceStatus& d) { return d.offer.most(); }},
    DeviceMetric{"weir_device_revenue_total", "counter", "Earned with vGPUs, since selling was last set",
                 [](const DeviceStatus& d) { return d.account.revenue; }},
    DeviceMetric{"weir_device_penalty_total", "counter", "Owed for broken promises, since selling was last set",
                 [](const DeviceStatus& d) { return d.account.penalty; }},
    DeviceMetric{"weir_device_memory_slots", "gauge", "Slots of 64 MiB of elastic memory; 0: it is not elastic",
                 [](const DeviceStatus& d) -> double { return d.memory.slots; }},
    DeviceMetric{"weir_device_memory_held_slots", "gauge", "Slots that vGPUs hold, all together",
                 [](const DeviceStatus& d) { return static_cast<double>(d.memory.held); }},
    DeviceMetric{"weir_device_memory_overhead", "gauge", "gBalloon's f, 0 to 2, at the last check",
                 [](const DeviceStatus& d) { return d.memory.overhead; }},
    DeviceMetric{"weir_device_memory_switches_total", "counter", "Number of times that slots got a waiting owner",
                 [](const DeviceStatus& d) { return static_cast<double>(d.memory.switches); }},
    DeviceMetric{"weir_device_broken_seconds_total", "counter",
                 "Time with a broken promise, summed over vGPUs, since selling was last set",
                 [](const DeviceStatus& d) { return d.account.broken_s; }},
};

}  // namespace

std::string MetricsText(Node& node) {
  std::string out;
  const std::vector<VgpuReport> vgpus = node.Vgpus();
  for (const VgpuMetric& metric : kVgpuMetrics)
    out += Lines(metric.name, metric.type, metric.help, vgpus, metric.value);
  engine::VgpuSettings::Fields([&](const engine::SettingInfo& info, auto member) {
    using Value = std::remove_cvref_t<decltype(engine::VgpuSettings{}.*member)>;
    if constexpr (!engine::kIsChoice<Value>)
      if (info.metric.name != nullptr)
        out += Lines(info.metric.name, info.metric.type, info.metric.help, vgpus,
                     [&](const VgpuReport& v) { return engine::SettingNumber(v.status.settings.*member); });
  });
  proto::ExecutorStatistics::Fields([&](const proto::StatisticInfo& info, auto member, auto) {
    if (info.metric.name == nullptr) return;
    out += Lines(info.metric.name, info.metric.type, info.metric.help, vgpus,
                 [&](const VgpuReport& v) { return MetricValue(v.status.memory_sample.stats.*member); });
  });
  out +=
      "# HELP weir_device_gpu_use GPU time used per second of capacity, last second\n# TYPE weir_device_gpu_use "
      "gauge\n";
  const std::vector<DeviceStatus> devices = node.Devices();
  for (const DeviceStatus& device : devices)
    out += fmt::format("weir_device_gpu_use{{device=\"{}\",policy=\"{}\"}} {}\n", device.spec.name, device.policy,
                       device.gpu_use);
  for (const DeviceMetric& metric : kDeviceMetrics) {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name, metric.help, metric.type);
    for (const DeviceStatus& device : devices)
      out += fmt::format("{}{{device=\"{}\"}} {}\n", metric.name, device.spec.name, metric.value(device));
  }
  out += fmt::format(
      "# HELP weir_node_looks_total Decisions of the engine\n# TYPE weir_node_looks_total "
      "counter\nweir_node_looks_total {}\n",
      node.looks());
  return out;
}

}  // namespace weir::daemon
