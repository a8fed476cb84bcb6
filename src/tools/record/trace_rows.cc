// SPDX-License-Identifier: Apache-2.0
#include "tools/record/trace_rows.h"

#include <algorithm>
#include <cmath>

namespace weir::cli {
namespace {

std::uint64_t Bounded(std::int64_t ns, std::int64_t max) {
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(ns, 0, std::max<std::int64_t>(max, 0)));
}

/// `value` times `unit` as a whole number, at most `max`; 0 for a value that is not finite.
std::uint64_t Scaled(double value, double unit, double max) {
  return std::isfinite(value) ? static_cast<std::uint64_t>(std::llround(std::clamp(value * unit, 0.0, max))) : 0;
}

constexpr auto kNsMax = static_cast<std::int64_t>(proto::kTraceNsMax - 1);

}  // namespace

proto::TraceHeader TraceHeaderOf(const VgpuView& vgpu, const DeviceView& device, std::int64_t start_ns) {
  proto::TraceHeader header;
  header.start_ns = start_ns;
  header.device = device.name;
  header.device_kind = device.kind;
  header.device_cpus = device.cpu_count;
  header.policy = device.policy;
  header.policy_params = device.params;
  header.vgpu = vgpu.name;
  header.weight = vgpu.settings.weight;
  header.cap_ppm = vgpu.settings.cap.ppm;
  header.fps_milli = Scaled(vgpu.settings.fps, 1e3, 1e12);
  header.latency_ns = static_cast<std::uint64_t>(vgpu.settings.latency.count());
  return header;
}

proto::TraceCharge TraceChargeOf(const VgpuView& vgpu) {
  return {static_cast<std::int64_t>(Bounded(vgpu.totals.settled_at_ns, kNsMax)),
          Bounded(vgpu.totals.settled_ns, kNsMax)};
}

proto::TraceProcess TraceProcessOf(const ProcessView& process) {
  return {std::max<std::int64_t>(process.pid, 0), process.program, process.api, process.renderer, process.meter};
}

proto::TraceFrame TraceFrameOf(const FrameRow& row, std::uint32_t process) {
  const std::int64_t held_ns = row.submit_ns - row.present_ns;
  return {.process = process,
          .surface = static_cast<std::uint32_t>(Bounded(row.surface, UINT32_MAX)),
          .begin_ns = row.begin_ns + row.start_delay_ns,
          .think_ns = Bounded(row.present_ns - row.begin_ns - row.start_delay_ns, kNsMax),
          .held_ns = Bounded(held_ns, kNsMax),
          .present_ns = Bounded(row.end_ns - row.submit_ns, kNsMax),
          .gpu_ns = Bounded(row.gpu_ns, kNsMax),
          .sync_ns = Bounded(row.sync_ns, held_ns),
          .pace_ns = Bounded(row.pace_ns, held_ns),
          .wait_ns = Bounded(row.wait_ns, held_ns),
          .predicted_ns = Bounded(row.predicted_ns, kNsMax),
          .interval_ns = Bounded(row.interval_ns, kNsMax)};
}

}  // namespace weir::cli
