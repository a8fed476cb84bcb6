// SPDX-License-Identifier: Apache-2.0
// The caps that promised rates imply: core/oversubscribe/rate_caps computes them, and this file sets them in the views.
#include "core/oversubscribe/rate_caps.h"
#include "engine/node_state.h"

namespace weir::engine {
namespace {

/// Part of the device that the promised rate needs now; zero: its cost is not known. The cost of the last frames
/// counts, too, since the mean over many frames follows a scene that has just become heavier too slowly. This is not so
/// for tasks: of tasks that end together only the mean is known.
double NeedNow(const core::VgpuView& view, Share cap) {
  if (view.loops_gpu <= Duration{0}) return 0;
  const Duration now = view.draws ? std::max(view.frame_gpu, view.recent_gpu) : Duration{0};
  return core::NeedOf(view.promised, std::max(view.loops_gpu, now), cap);
}

/// Whether the vGPU uses its promise now.
bool PromiseRuns(const core::VgpuView& view, Instant now) {
  return view.attached && (view.rate > 0 || core::Competes(view, now, seconds(1)));
}

}  // namespace

/// Computes the implied caps. Walks over all vGPUs, so it is called once in kRateCapsEvery. A vGPU that does not use
/// its promise keeps what it was granted.
void NodeEngine::ComputeRateCaps(Instant now, Device_& device) {
  device.rate_claims.clear();
  for (Vgpu_* vgpu : device.all) {
    const core::VgpuView& view = vgpu->View();
    vgpu->rate_cap = Share::Whole();
    const bool promised = view.promised > Duration{0} && device.sales->SaleOf(vgpu->id) != core::Sale::kBestEffort;
    if (!promised || !PromiseRuns(view, now)) continue;
    vgpu->rate_need = core::NeedSince(vgpu->rate_need, NeedNow(view, vgpu->settings.cap));
    device.rate_claims.push_back({.id = vgpu->id,
                                  .index = vgpu->place,
                                  .weight = vgpu->settings.weight,
                                  .need = vgpu->rate_need,
                                  .own_cap = vgpu->settings.cap < Share::Whole(),
                                  .granted = vgpu->rate_granted});
  }
  core::CapRates(device.rate_claims);
  for (const core::RateClaim& claim : device.rate_claims) {
    Vgpu_& vgpu = *device.all[claim.index];
    vgpu.rate_granted = claim.granted;
    if (!claim.own_cap) vgpu.rate_cap = Share::FromFraction(claim.cap);
  }
}

/// Applies the implied caps to the views. Not on a device with adaptive overselling, where caps already follow from
/// what promises need (core/oversubscribe/caps.h).
void NodeEngine::CapRates(Instant now, Device_& device, Actions& actions) {
  const bool wanted = device.policy->caps_rates() && device.sales->mode() != core::OversellMode::kAdaptive;
  if (!wanted && !device.rates_capped) return;
  if (!wanted) {
    for (Vgpu_* vgpu : device.all) vgpu->rate_cap = Share::Whole();
  } else if (now >= device.rate_caps_at) {
    device.rate_caps_at = now + core::kRateCapsEvery;
    ComputeRateCaps(now, device);
  }
  device.rates_capped = false;
  for (std::size_t i = 0; i < device.active; ++i) {
    Vgpu_* const vgpu = device.owners[i];
    core::VgpuView& view = vgpu->View();
    const bool capped = vgpu->rate_cap < Share::Whole();
    if (!capped && !vgpu->rate_capped) continue;
    vgpu->rate_capped = capped;
    device.rates_capped |= capped;
    const Share sold = device.sales->CapOf(vgpu->id);
    view.cap = std::min(sold, vgpu->rate_cap);
    view.ceiling = view.cap < sold ? sold : device.sales->CeilingOf(vgpu->id);
  }
  if (wanted && device.rate_claims.size() > 1) actions.look_again = std::min(actions.look_again, device.rate_caps_at);
}

}  // namespace weir::engine
