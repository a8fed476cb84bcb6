// SPDX-License-Identifier: Apache-2.0
// The one table of metrics. After a change run scripts/reference. Names follow Prometheus' conventions: base units at
// their end, `_total` for counters, `_ratio` for fractions, no abbreviations.
#include <array>

#include "daemon/metrics.h"

namespace weir::daemon {
namespace {

using Device = engine::DeviceStatus;
using Figures = NodeFigures;
using Vgpu = VgpuReport;

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;
constexpr MetricType kHistogram = MetricType::kHistogram;

double Number(std::uint64_t count) { return static_cast<double>(count); }
double Number(Bytes bytes) { return static_cast<double>(bytes.count); }
double InBytes(std::uint64_t slots) { return static_cast<double>(slots) * static_cast<double>(kSlotBytes.count); }

const core::FrameTotals& Totals(const Vgpu& v) { return v.status.totals; }
const engine::VgpuSettings& Settings(const Vgpu& v) { return v.status.settings; }
const proto::ExecutorStatistics& Executors(const Vgpu& v) { return v.status.memory_sample.stats; }

std::vector<LabelledValue> BuildInfo(const Figures&) { return {{{WEIR_VERSION}, 1}}; }

std::vector<LabelledValue> EventsByKind(const Figures& node) {
  std::vector<LabelledValue> values;
  for (const auto& [kind, count] : node.events) values.push_back({{kind}, Number(count)});
  return values;
}

std::vector<LabelledValue> DeviceInfo(const Figures& node) {
  std::vector<LabelledValue> values;
  for (const Device& d : node.devices) values.push_back({{d.spec.name, d.policy, d.spec.kind, d.spec.model}, 1});
  return values;
}

constexpr std::array kNodeMetrics{
    MetricEntry{"weir_build_info", kGauge, "", "The version of the daemon; the value is 1",
                OwnLabels{[] { return std::vector<const char*>{"version"}; }, BuildInfo}},
    MetricEntry{"process_start_time_seconds", kGauge, "seconds", "When the daemon started, since 1970",
                [](const Figures& n) { return static_cast<double>(n.started_utc_ms) / 1e3; }},
    MetricEntry{"weir_node_looks_total", kCounter, "", "Times that the daemon has looked at the gates and decided",
                [](const Figures& n) { return Number(n.looks); }},
    MetricEntry{"weir_node_state_saved", kGauge, "",
                "1: a restart would keep all vGPUs and settings; 0: the last changes could not be saved",
                [](const Figures& n) { return n.saved ? 1.0 : 0.0; }},
    MetricEntry{"weir_events_total", kCounter, "",
                "Events of 'weir events', by kind; a kind appears with its first event",
                OwnLabels{[] { return std::vector<const char*>{"kind"}; }, EventsByKind}},
};

constexpr std::array kDeviceMetrics{
    MetricEntry{"weir_device_info", kGauge, "", "The device's policy, kind and model; the value is 1",
                OwnLabels{[] {
                            return std::vector<const char*>{"device", "policy", "kind", "model"};
                          },
                          DeviceInfo}},
    MetricEntry{"weir_device_gpu_seconds_total", kCounter, "seconds",
                "GPU time charged to the device's vGPUs, those that were removed included",
                [](const Device& d) { return ExactSeconds(d.gpu_most); }},
    MetricEntry{"weir_device_gpu_use_ratio", kGauge, "ratio", "Use of the device by all its vGPUs in the last second",
                [](const Device& d) { return d.gpu_use; }},
    MetricEntry{"weir_device_sold_ratio", kGauge, "ratio",
                "Ceilings that are sold, all together, as a part of the device; without best effort",
                [](const Device& d) { return d.sold; }},
    MetricEntry{"weir_device_sellable_ratio", kGauge, "ratio",
                "The highest cap that can be sold now, as a part of the device",
                [](const Device& d) { return d.offer.most(); }},
    MetricEntry{"weir_device_load_ratio", kGauge, "ratio",
                "Part of the device that the sold promises need, as of the last decision about sales",
                [](const Device& d) { return d.load; }},
    MetricEntry{"weir_device_promised_need_ratio", kGauge, "ratio",
                "Part of the device that promised rates and shares need, as far as their cost is known; above 1 they "
                "do not fit",
                [](const Device& d) { return d.promised; }},
    MetricEntry{"weir_device_revenue_total", kCounter, "",
                "Earned with vGPUs since selling was last set, in the unit of the prices",
                [](const Device& d) { return d.account.revenue; }},
    MetricEntry{"weir_device_penalty_total", kCounter, "",
                "Owed for broken promises since selling was last set, in the unit of the prices",
                [](const Device& d) { return d.account.penalty; }},
    MetricEntry{"weir_device_broken_seconds_total", kCounter, "seconds",
                "Time with a broken promise since selling was last set, summed over vGPUs",
                [](const Device& d) { return d.account.broken_s; }},
    MetricEntry{"weir_device_memory_bytes", kGauge, "bytes",
                "Elastic memory that vGPUs can get; 0 where the device's memory is not elastic",
                [](const Device& d) { return InBytes(d.memory.slots); }},
    MetricEntry{"weir_device_memory_held_bytes", kGauge, "bytes",
                "Elastic memory that vGPUs hold, all together; several may hold the same",
                [](const Device& d) { return InBytes(d.memory.held); }},
    MetricEntry{"weir_device_memory_overhead", kGauge, "",
                "Memory overhead at the last check, 0 to 2: above 0.5 unused memory is taken back, above 1 used memory",
                [](const Device& d) { return d.memory.overhead; }},
    MetricEntry{"weir_device_memory_switches_total", kCounter, "",
                "Times that elastic memory was assigned to another vGPU, which waited for it",
                [](const Device& d) { return Number(d.memory.switches); }},
};

constexpr std::array kFrameMetrics{
    MetricEntry{"weir_vgpu_frames_total", kCounter, "", "Frames presented; of a program that computes, batches",
                [](const Vgpu& v) { return Number(Totals(v).frames); }},
    MetricEntry{"weir_vgpu_tasks_total", kCounter, "", "Frames presented and tasks ended; a batch may end several",
                [](const Vgpu& v) { return Number(Totals(v).tasks); }},
    MetricEntry{"weir_vgpu_late_frames_total", kCounter, "", "Frames later than promised",
                [](const Vgpu& v) { return Number(Totals(v).late_frames); }},
    MetricEntry{"weir_vgpu_broken_frames_total", kCounter, "",
                "Frames later than promised because they waited for others",
                [](const Vgpu& v) { return Number(Totals(v).broken_frames); }},
    MetricEntry{"weir_vgpu_frame_seconds", kHistogram, "seconds",
                "Latency of frames: from the return of one present to the return of the next; or of batches",
                [](const Vgpu& v) { return v.status.histograms.latency.Cumulative(); }},
    MetricEntry{"weir_vgpu_frame_wait_seconds", kHistogram, "seconds",
                "Time that each frame or batch waited at the gate",
                [](const Vgpu& v) { return v.status.histograms.wait.Cumulative(); }},
    MetricEntry{"weir_vgpu_wait_seconds_total", kCounter, "seconds",
                "Time waited at the gate, summed over threads; a wait is added when its frame or batch has ended",
                [](const Vgpu& v) { return ExactSeconds(Totals(v).wait); }},
    MetricEntry{"weir_vgpu_waiting_threads", kGauge, "", "Threads that wait at the gate now",
                [](const Vgpu& v) { return Number(v.waiting_threads); }},
    MetricEntry{"weir_vgpu_pace_seconds_total", kCounter, "seconds", "Time that frames were delayed to keep their pace",
                [](const Vgpu& v) { return ExactSeconds(Totals(v).pace); }},
    MetricEntry{"weir_vgpu_frames_per_second", kGauge, "per second",
                "Frames or tasks of the fastest loop in the last second",
                [](const Vgpu& v) { return v.status.window.fps; }},
    MetricEntry{"weir_vgpu_presents_predicted_total", kCounter, "", "Presents whose duration was predicted",
                [](const Vgpu& v) { return Number(Totals(v).predicted); }},
    MetricEntry{"weir_vgpu_presents_mispredicted_total", kCounter, "", "Of these, predictions off by more than 2 ms",
                [](const Vgpu& v) { return Number(Totals(v).mispredicted); }},
    MetricEntry{"weir_vgpu_records_lost_total", kCounter, "", "Frames that are not counted: they came too fast",
                [](const Vgpu& v) { return Number(v.status.records_lost); }},
    MetricEntry{"weir_vgpu_records_bad_total", kCounter, "", "Records of frames that made no sense and were dropped",
                [](const Vgpu& v) { return Number(v.status.records_bad); }},
    MetricEntry{"weir_vgpu_samples_bad_total", kCounter, "", "Allowances that made no sense and were dropped",
                [](const Vgpu& v) { return Number(v.status.samples_bad); }},
};

constexpr std::array kUseMetrics{
    MetricEntry{"weir_vgpu_gpu_seconds_total", kCounter, "seconds",
                "GPU time charged; on the embedded device, CPU time divided by the number of its CPUs",
                [](const Vgpu& v) { return ExactSeconds(v.status.gpu_most); }},
    MetricEntry{"weir_vgpu_gpu_use_ratio", kGauge, "ratio",
                "Use of the device in the last second, as a part of its capacity",
                [](const Vgpu& v) { return v.status.gpu_use; }},
    MetricEntry{"weir_vgpu_gpu_share_ratio", kGauge, "ratio",
                "Part of the GPU time that all vGPUs of the device used in the last second",
                [](const Vgpu& v) { return v.status.gpu_share; }},
    MetricEntry{"weir_vgpu_cap_now_ratio", kGauge, "ratio",
                "The cap at this moment, as a part of the device: overselling and promised rates can lower it",
                [](const Vgpu& v) { return v.status.cap_now.Fraction(); }},
    MetricEntry{"weir_vgpu_cap_ratio", kGauge, "ratio", "The cap in its settings, as a part of the device",
                [](const Vgpu& v) { return Settings(v).cap.Fraction(); }},
    MetricEntry{"weir_vgpu_weight", kGauge, "", "The weight in its settings",
                [](const Vgpu& v) { return Number(Settings(v).weight); }},
    MetricEntry{"weir_vgpu_promised_frames_per_second", kGauge, "per second", "Promised frames; 0: no promise",
                [](const Vgpu& v) { return Settings(v).fps; }},
    MetricEntry{"weir_vgpu_promised_tasks_per_second", kGauge, "per second", "Promised tasks; 0: no promise",
                [](const Vgpu& v) { return Settings(v).tasks_per_s; }},
    MetricEntry{"weir_vgpu_promised_latency_seconds", kGauge, "seconds",
                "Promised upper limit of a frame's latency; 0: no promise",
                [](const Vgpu& v) { return ExactSeconds(Settings(v).latency); }},
    MetricEntry{"weir_vgpu_paused", kGauge, "", "1: 'weir vgpu pause' holds it; 0: it may run",
                [](const Vgpu& v) { return v.status.state == engine::VgpuState::kPaused ? 1.0 : 0.0; }},
    MetricEntry{"weir_vgpu_processes", kGauge, "", "Attached processes",
                [](const Vgpu& v) { return Number(v.processes.size()); }},
    MetricEntry{"weir_vgpu_fail_opens_total", kCounter, "",
                "Times that a program went on without limits because this daemon did not answer for a second; not when "
                "it has ended",
                [](const Vgpu& v) { return Number(v.fail_opens); }},
    MetricEntry{"weir_vgpu_executor_starts_total", kCounter, "", "Starts of its OpenCL executor, which ends when idle",
                [](const Vgpu& v) { return Number(v.executor_starts); }},
    MetricEntry{"weir_vgpu_executor_failures_total", kCounter, "",
                "Ends of its OpenCL executor by a signal or with an error",
                [](const Vgpu& v) { return Number(v.executor_failures); }},
    MetricEntry{"weir_vgpu_memory_refused_total", kCounter, "",
                "Allocations and commands of its programs that failed for lack of memory",
                [](const Vgpu& v) { return Number(v.memory_refused); }},
    MetricEntry{"weir_vgpu_program_memory_bytes", kGauge, "bytes",
                "Device memory that its CUDA and Vulkan programs hold, as they report it",
                [](const Vgpu& v) { return Number(v.program_memory); }},
};

// Of elastic memory. Executors count; the totals begin at 0 with each executor.
constexpr std::array kMemoryMetrics{
    MetricEntry{"weir_vgpu_memory_min_bytes", kGauge, "bytes", "The minimum in its settings",
                [](const Vgpu& v) { return Number(Settings(v).memory_min); }},
    MetricEntry{"weir_vgpu_memory_max_bytes", kGauge, "bytes", "The maximum in its settings; 0: no limit",
                [](const Vgpu& v) { return Number(Settings(v).memory_max); }},
    MetricEntry{"weir_vgpu_memory_held_bytes", kGauge, "bytes", "Elastic memory that it holds",
                [](const Vgpu& v) { return v.status.memory.elastic ? InBytes(v.status.memory.limit) : 0; }},
    MetricEntry{"weir_vgpu_memory_assigned_bytes", kGauge, "bytes",
                "Of what it holds, what it may use now; other vGPUs have the rest",
                [](const Vgpu& v) { return InBytes(v.status.memory.here); }},
    MetricEntry{"weir_vgpu_memory_resident_bytes", kGauge, "bytes",
                "Device memory that its buffers and images take, in units of 64 MiB",
                [](const Vgpu& v) { return InBytes(Executors(v).resident_slots); }},
    MetricEntry{"weir_vgpu_memory_needed_bytes", kGauge, "bytes", "Device memory that it could use at once",
                [](const Vgpu& v) { return Number(Executors(v).need); }},
    MetricEntry{"weir_vgpu_memory_in_use_bytes", kGauge, "bytes",
                "Its buffers and images that were used within the last half second, or are waited for",
                [](const Vgpu& v) { return Number(Executors(v).in_use); }},
    MetricEntry{"weir_vgpu_memory_made_bytes", kGauge, "bytes", "All its buffers and images, on the device or not",
                [](const Vgpu& v) { return Number(Executors(v).made); }},
    MetricEntry{"weir_vgpu_memory_copied_out_bytes_total", kCounter, "bytes", "Copied from the device to host memory",
                [](const Vgpu& v) { return Number(Executors(v).copied_out); }},
    MetricEntry{"weir_vgpu_memory_copied_in_bytes_total", kCounter, "bytes", "Copied from host memory to the device",
                [](const Vgpu& v) { return Number(Executors(v).copied_in); }},
    MetricEntry{"weir_vgpu_memory_evictions_total", kCounter, "", "Buffers and images evicted to host memory",
                [](const Vgpu& v) { return Number(Executors(v).evictions); }},
    MetricEntry{"weir_vgpu_memory_switch_seconds_total", kCounter, "seconds",
                "Time of copies because memory was assigned to other vGPUs for a while",
                [](const Vgpu& v) { return ExactSeconds(Executors(v).switch_copy); }},
    MetricEntry{"weir_vgpu_launches_in_parts_total", kCounter, "", "Launches that did not fit and ran in parts",
                [](const Vgpu& v) { return Number(Executors(v).launches_in_parts); }},
    MetricEntry{"weir_vgpu_parts_total", kCounter, "", "Parts of these launches",
                [](const Vgpu& v) { return Number(Executors(v).parts); }},
    MetricEntry{"weir_vgpu_launches_not_cut_total", kCounter, "",
                "Launches that should have run in parts and could not",
                [](const Vgpu& v) { return Number(Executors(v).launches_not_cut); }},
    MetricEntry{"weir_vgpu_parts_copied_in_bytes_total", kCounter, "bytes", "Copied to the device for parts",
                [](const Vgpu& v) { return Number(Executors(v).parts_in); }},
    MetricEntry{"weir_vgpu_parts_copied_out_bytes_total", kCounter, "bytes", "Copied back from the device for parts",
                [](const Vgpu& v) { return Number(Executors(v).parts_out); }},
    MetricEntry{"weir_vgpu_parts_decide_seconds_total", kCounter, "seconds",
                "Time to analyse kernels and to choose nodes and cuts",
                [](const Vgpu& v) { return ExactSeconds(Executors(v).parts_decide); }},
    MetricEntry{"weir_vgpu_parts_compile_seconds_total", kCounter, "seconds", "Time to build the kernels of parts",
                [](const Vgpu& v) { return ExactSeconds(Executors(v).parts_compile); }},
};

template <std::size_t... kSizes>
constexpr auto Joined(const std::array<MetricEntry, kSizes>&... tables) {
  std::vector<MetricEntry> all;
  (all.insert(all.end(), tables.begin(), tables.end()), ...);
  return all;
}

}  // namespace

std::span<const MetricEntry> MetricTable() {
  static const std::vector<MetricEntry> kAll =
      Joined(kNodeMetrics, kDeviceMetrics, kFrameMetrics, kUseMetrics, kMemoryMetrics);
  return kAll;
}

}  // namespace weir::daemon
