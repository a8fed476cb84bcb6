// SPDX-License-Identifier: Apache-2.0
// Charges by the driver's account (docs/accounting.md).
#include <algorithm>

#include "engine/node_state.h"

namespace weir::engine {
namespace {

/// Factor for the weight of older readings at each reading. With ten readings a second, those of about one second
/// count.
constexpr double kKeptOfBefore = 0.8;

}  // namespace

double NodeEngine::ReportScale(VgpuId id) const {
  const auto found = vgpus_.find(id);
  return found == vgpus_.end() ? 1 : found->second->scale;
}

/// The GPU time of the vGPU that the reconciler corrects. If its processes have counters, reservations of work in
/// flight are left out: the account counts that work when it runs. `partial`: a process has ended without a last value.
/// It is charged what it reported, without the scale and with reservations, since other processes of the vGPU may have
/// made the scale small by false reports, and may have written any reservation.
core::VgpuUse NodeEngine::UseOf(Vgpu_& vgpu, bool partial) {
  Duration& used = vgpu.View().used;
  if (partial) {
    const Duration reported = vgpu.View().reported - vgpu.reported_before;
    used += std::max(reported - vgpu.GpuTimeOf(reported.count()), Duration{0});
  }
  const Duration in_flight = vgpu.listed && !partial ? vgpu.GpuTimeOf(vgpu.reserved_ns) : Duration{0};
  return {.vgpu = vgpu.id, .reported = used - vgpu.settled - in_flight, .listed = vgpu.listed, .partial = partial};
}

/// Applies a correction. The part of the reservations of work in flight that the account has not counted yet stays
/// charged. Otherwise each reading would return that part, and the vGPU could pass the gate again although its work
/// still waits for the device.
void NodeEngine::Correct(Vgpu_& vgpu, const core::VgpuUse& use) {
  core::VgpuView& view = vgpu.View();
  const Duration before = view.used;
  vgpu.settled += use.reported + use.correction;
  view.used = vgpu.settled;
  if (use.listed) view.used += std::clamp(before - vgpu.settled, Duration{0}, vgpu.GpuTimeOf(vgpu.reserved_ns));
}

/// Learns what the account counts for each second that the vGPU's processes report. Only work that has ended is
/// compared. So a reservation counts as a report once its work has ended, and what the account counts of that work is
/// left out until then.
void NodeEngine::LearnScale(Vgpu_& vgpu, const core::VgpuUse& use) {
  constexpr double kScaleMax = 100;
  const Duration to_run = vgpu.View().used - vgpu.settled;
  const Duration begun = use.listed ? vgpu.GpuTimeOf(vgpu.reserved_ns) - to_run : Duration{0};
  const Duration all = vgpu.View().reported - vgpu.reported_before;
  const std::int64_t reported = all.count() - (vgpu.reserved_ns - vgpu.reserved_before_ns);
  const Duration counted = use.reported + use.correction - (begun - vgpu.begun);
  vgpu.reported_before = vgpu.View().reported;
  vgpu.reserved_before_ns = vgpu.reserved_ns;
  vgpu.begun = begun;
  // A reading in which no work ends says nothing about reports, and must not reduce the weight of other readings.
  const double kept = reported > 0 ? kKeptOfBefore : 1;
  vgpu.reported_lately = vgpu.reported_lately * kept + static_cast<double>(reported);
  vgpu.counted_lately = vgpu.counted_lately * kept + static_cast<double>(counted.count());
  vgpu.scale = !use.listed || vgpu.reported_lately <= 0
                   ? 1
                   : std::clamp(vgpu.counted_lately / vgpu.reported_lately, 1 / kScaleMax, kScaleMax);
}

Status NodeEngine::On(Instant now, const SeeDeviceUse& event, Actions& actions) {
  WEIR_TRY(Device_ * device, DeviceNamed(event.device));
  std::vector<Vgpu_*> vgpus = device->all;
  std::ranges::sort(vgpus, {}, &Vgpu_::id);
  std::vector<ProcessId> listed;
  for (const core::UseCounter& counter : event.reading.counters)
    if (counter.process) listed.push_back(counter.process);
  std::ranges::sort(listed);
  std::vector<core::VgpuUse> uses;
  uses.reserve(vgpus.size());
  std::vector<Duration> charged;
  charged.reserve(vgpus.size());
  for (Vgpu_* vgpu : vgpus) {
    const bool partial = vgpu->ended_beyond > 0 || std::ranges::any_of(vgpu->ended, [&](ProcessId process) {
                           return !std::ranges::binary_search(listed, process);
                         });
    charged.push_back(vgpu->View().used);
    vgpu->KeepMost();
    uses.push_back(UseOf(*vgpu, partial));
  }
  device->reconciler.Settle(now, event.reading, uses);
  for (std::size_t i = 0; i < vgpus.size(); ++i) {
    Vgpu_& vgpu = *vgpus[i];
    const Duration before = charged[i];
    Correct(vgpu, uses[i]);
    LearnScale(vgpu, uses[i]);
    if (uses[i].correction > Duration{0}) vgpu.View().last_active = now;
    vgpu.settled_at = now;
    vgpu.listed = uses[i].listed;
    vgpu.ended.clear();
    vgpu.ended_beyond = 0;
    if (vgpu.resting() && (vgpu.View().used != before || vgpu.View().last_active == now))
      device->woken.push_back(&vgpu);
  }
  device->WakeThese(now, actions);
  Decide(now, *device, actions);
  return Ok();
}

}  // namespace weir::engine
