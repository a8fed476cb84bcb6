// SPDX-License-Identifier: Apache-2.0
// Charges by the driver's account (docs/accounting.md).
#include <algorithm>

#include "engine/node_state.h"

namespace weir::engine {
namespace {

/// Weight that old readings keep at each reading: the readings of about one second count.
constexpr double kKeptOfBefore = 0.8;

}  // namespace

double NodeEngine::ReportScale(VgpuId id) const {
  constexpr double kScaleMax = 100;
  const auto found = vgpus_.find(id);
  if (found == vgpus_.end() || !found->second->listed || found->second->reported_lately <= 0) return 1;
  return std::clamp(found->second->charged_lately / found->second->reported_lately, 1 / kScaleMax, kScaleMax);
}

Status NodeEngine::On(Instant now, const SeeDeviceUse& event, Actions& actions) {
  WEIR_TRY(Device_ * device, DeviceNamed(event.device));
  std::vector<Vgpu_*> vgpus = device->owners;
  std::ranges::sort(vgpus, {}, &Vgpu_::id);
  std::vector<ProcessId> listed;
  for (const core::UseCounter& counter : event.reading.counters)
    if (counter.process) listed.push_back(counter.process);
  std::ranges::sort(listed);
  std::vector<core::VgpuUse> uses;
  uses.reserve(vgpus.size());
  for (const Vgpu_* vgpu : vgpus) {
    const bool partial = vgpu->ended_beyond > 0 || std::ranges::any_of(vgpu->ended, [&](ProcessId process) {
                           return !std::ranges::binary_search(listed, process);
                         });
    uses.push_back(
        {.vgpu = vgpu->id, .reported = vgpu->View().used - vgpu->settled, .listed = vgpu->listed, .partial = partial});
  }
  device->reconciler.Settle(now, event.reading, uses);
  for (std::size_t i = 0; i < vgpus.size(); ++i) {
    Vgpu_& vgpu = *vgpus[i];
    vgpu.View().used += uses[i].correction;
    if (uses[i].correction > Duration{0}) vgpu.View().last_active = now;
    const double reported = static_cast<double>(uses[i].reported.count());
    vgpu.reported_lately = vgpu.reported_lately * kKeptOfBefore + reported;
    vgpu.charged_lately =
        vgpu.charged_lately * kKeptOfBefore + reported + static_cast<double>(uses[i].correction.count());
    vgpu.settled = vgpu.View().used;
    vgpu.settled_at = now;
    vgpu.listed = uses[i].listed;
    vgpu.ended.clear();
    vgpu.ended_beyond = 0;
  }
  Decide(now, *device, actions);
  return Ok();
}

}  // namespace weir::engine
