// SPDX-License-Identifier: Apache-2.0
// What the engine reports about devices and vGPUs, and the check of names.
#include <fmt/format.h>

#include "engine/node_engine.h"
#include "engine/node_state.h"

namespace weir::engine {

const char* NameOf(VgpuState state) {
  switch (state) {
    case VgpuState::kIdle: return "idle";
    case VgpuState::kRunning: return "running";
    case VgpuState::kWaiting: return "waiting";
    case VgpuState::kPaused: return "paused";
  }
  return "unknown";
}

std::vector<DeviceStatus> NodeEngine::Devices(Instant now) const {
  std::vector<DeviceStatus> all;
  for (const auto& device : devices_) {
    DeviceStatus status{.spec = device->spec,
                        .policy = std::string(device->entry->name),
                        .params = device->params,
                        .keeps_rates = KeepsRates(*device),
                        .warnings = WarningsOf(*device),
                        .vgpus = device->views.size(),
                        .gpu_total = device->gone,
                        .gpu_most = device->gone_most,
                        .oversell = device->sales->mode(),
                        .oversell_params = device->sales->params(),
                        .sold = device->sales->sold(),
                        .load = device->sales->load(),
                        .promised = device->promised,
                        .promised_unknown = device->promised_unknown,
                        .promises_fit = device->fit.fits(),
                        .offer = device->sales->OfferNow(),
                        .account = device->sales->account(),
                        .memory = MemoryOf(*device)};
    status.gpu_use = UseOf(now, *device);
    for (const core::VgpuView& view : device->views) status.gpu_total += view.used;
    for (const Vgpu_* vgpu : device->all) status.gpu_most += vgpu->UsedMost();
    all.push_back(std::move(status));
  }
  return all;
}

std::vector<VgpuStatus> NodeEngine::Vgpus(Instant now) const {
  std::vector<VgpuStatus> all;
  std::map<const Device_*, double> use;
  for (const auto& device : devices_) use[device.get()] = UseOf(now, *device);
  for (const auto& [id, vgpu] : vgpus_) all.push_back(StatusOf(now, *vgpu, use[vgpu->device]));
  return all;
}

Result<VgpuStatus> NodeEngine::Vgpu(Instant now, VgpuId id) const {
  WEIR_TRY(const Vgpu_* vgpu, Get(id));
  return StatusOf(now, *vgpu, UseOf(now, *vgpu->device));
}

/// Use of the device by all of its vGPUs in the last second, as a part of its capacity.
double NodeEngine::UseOf(Instant now, const Device_& device) {
  double use = 0;
  for (const Vgpu_* vgpu : device.all) use += vgpu->marks.Rate(now, vgpu->View().used);
  return use;
}

Result<Duration> NodeEngine::GpuTotal(VgpuId id) const {
  WEIR_TRY(const Vgpu_* vgpu, Get(id));
  return vgpu->View().used;
}

Result<VgpuId> NodeEngine::Find(std::string_view name) const {
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  constexpr std::size_t kListedMax = 10;
  std::string known;
  std::size_t listed = 0;
  for (const auto& [other, id] : names_) {
    if (++listed > kListedMax) break;
    known += (known.empty() ? "" : ", ") + other;
  }
  if (names_.size() > kListedMax) known += fmt::format(" and {} more", names_.size() - kListedMax);
  return Fail(Errc::kNotFound, names_.empty() ? fmt::format("no vGPU named '{}'; none exists yet", name)
                                              : fmt::format("no vGPU named '{}'; existing: {}", name, known));
}

VgpuStatus NodeEngine::StatusOf(Instant now, const Vgpu_& vgpu, double device_use) const {
  const core::VgpuView& view = vgpu.View();
  VgpuStatus status{.id = vgpu.id,
                    .name = vgpu.name,
                    .device = vgpu.device->spec.name,
                    .settings = vgpu.settings,
                    .sale = vgpu.device->sales->SaleOf(vgpu.id),
                    .cap_now = view.cap,
                    .processes = vgpu.processes.size(),
                    .totals = vgpu.frames.totals(),
                    .window = vgpu.frames.Window(now),
                    .histograms = vgpu.frames.histograms(),
                    .gpu_total = view.used,
                    .gpu_most = vgpu.UsedMost(),
                    .settled = vgpu.settled,
                    .settled_at = vgpu.settled_at,
                    .gpu_use = vgpu.marks.Rate(now, view.used),
                    .records_lost = vgpu.records_lost,
                    .records_bad = vgpu.records_bad,
                    .samples_bad = vgpu.samples_bad,
                    .memory = MemoryOf(vgpu),
                    .memory_min = vgpu.device->memory ? vgpu.device->memory->balloon.MinOf(vgpu.id) : 0,
                    .memory_waits = vgpu.device->memory && vgpu.device->memory->turns.Waits(vgpu.id),
                    .memory_beyond = MemoryBeyondText(vgpu.settings, vgpu.device->spec.memory),
                    .memory_sample = vgpu.memory_sample};
  status.gpu_share = device_use > 0 ? status.gpu_use / device_use : 0;
  status.state = vgpu.paused                             ? VgpuState::kPaused
                 : view.waiting > 0                      ? VgpuState::kWaiting
                 : core::Competes(view, now, seconds(1)) ? VgpuState::kRunning
                                                         : VgpuState::kIdle;
  return status;
}

Status CheckName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  bool good = !name.empty() && name.size() <= kNameBytesMax && name.front() != '.' && name.front() != '-';
  for (const char c : name) good = good && allowed(c);
  if (good) return Ok();
  return Fail(
      Errc::kInvalidArgument,
      fmt::format("'{}' can't name a vGPU: 1 to {} letters, digits, '.', '_' or '-', not starting with '.' or '-'",
                  name, kNameBytesMax));
}

}  // namespace weir::engine
