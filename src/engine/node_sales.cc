// SPDX-License-Identifier: Apache-2.0
// Selling a device: applies the decisions of core/oversubscribe to the views of vGPUs, and tells users of them.
#include <fmt/format.h>

#include <algorithm>

#include "engine/node_engine.h"
#include "engine/node_state.h"

namespace weir::engine {
namespace {

using core::OversellNote;

std::string Percent(double part) { return fmt::format("{:.0f} %", part * 100); }

}  // namespace

std::string NodeEngine::NameOf(VgpuId id) const {
  const auto found = vgpus_.find(id);
  return found == vgpus_.end() ? std::string() : found->second->name;
}

/// Completes the refusal of a cap: names the vGPUs to which the device is sold, those with the largest caps first, and
/// says what can be requested instead.
Error NodeEngine::WithBuyers(Error refused, const Device_& device, VgpuId asking) {
  constexpr std::size_t kBuyersNamedMax = 5;
  std::vector<const Vgpu_*> buyers;
  for (const Vgpu_* vgpu : device.all)
    if (vgpu->id != asking && device.sales->SaleOf(vgpu->id) != core::Sale::kBestEffort) buyers.push_back(vgpu);
  std::ranges::sort(buyers, [&](const Vgpu_* a, const Vgpu_* b) {
    const Share of_a = a->settings.cap, of_b = b->settings.cap;
    return of_b < of_a || (of_a == of_b && a->name < b->name);
  });
  std::string sold;
  for (std::size_t i = 0; i < std::min(buyers.size(), kBuyersNamedMax); ++i)
    sold += fmt::format("{}{} ({})", i == 0 ? "" : ", ", buyers[i]->name, Percent(buyers[i]->settings.cap.Fraction()));
  if (buyers.size() > kBuyersNamedMax) sold += fmt::format(" and {} more", buyers.size() - kBuyersNamedMax);
  refused.message += fmt::format(". {}{}Give a lower --cap, or --best-effort for idle time only",
                                 sold.empty() ? "" : "Sold to: ", sold.empty() ? "" : sold + ". ");
  return refused;
}

core::Sale NodeEngine::SaleOf(VgpuId id) const {
  const auto found = vgpus_.find(id);
  return found == vgpus_.end() ? core::Sale::kGuaranteed : found->second->device->sales->SaleOf(id);
}

void NodeEngine::SeeSales(Instant now, Device_& device, Actions& actions) {
  device.said.clear();
  actions.look_again = std::min(actions.look_again, device.sales->See(now, device.views, device.said));
  for (core::VgpuView& view : device.views) {
    view.cap = device.sales->CapOf(view.id);
    view.ceiling = device.sales->CeilingOf(view.id);
    view.share_promised = view.promised == Duration{0} && device.sales->SaleOf(view.id) != core::Sale::kBestEffort;
  }
  for (const OversellNote& note : device.said) {
    actions.decisions.push_back({.device = device.spec.name,
                                 .vgpu = NameOf(note.vgpu),
                                 .what = SaleDecided{.note = note, .from = NameOf(note.from)}});
    if (note.kind == OversellNote::Kind::kWarning) actions.leave.push_back({.vgpu = note.vgpu, .wanted = true});
    if (note.kind == OversellNote::Kind::kRelieved) actions.leave.push_back({.vgpu = note.vgpu});
  }
}

Status NodeEngine::On(Instant now, const SetOversell& event, Actions& actions) {
  WEIR_TRY(Device_ * device, DeviceNamed(event.device));
  WEIR_TRY(const core::PolicyParams params, core::CheckOversellParams(event.params));
  auto sales = std::make_unique<core::Oversell>(event.mode, params);
  for (const auto& [id, vgpu] : vgpus_)
    if (vgpu->device == device)
      WEIR_TRY_STATUS(sales->Add(id, vgpu->settings.cap, device->sales->SaleOf(id), /*restored=*/true));
  const double most = event.mode == core::OversellMode::kStrict   ? 1
                      : event.mode == core::OversellMode::kStatic ? core::ParamsFrom<core::OversellParams>(params).ratio
                                                                  : 1e9;
  if (sales->sold() > most + 1e-4)
    return Fail(
        Errc::kInvalidArgument,
        fmt::format("the caps on {} add up to {:.0f} %, and {} allows {:.0f} %: lower them first (weir vgpu set NAME "
                    "--cap C)",
                    device->spec.name, sales->sold() * 100, core::NameOf(event.mode), most * 100));
  if (const VgpuId named = device->sales->named()) actions.leave.push_back({.vgpu = named});
  device->sales = std::move(sales);
  device->promises_at = {};
  device->WakeAll(now, actions);
  for (core::VgpuView& view : device->views) {
    view.cap = device->sales->CapOf(view.id);
    view.ceiling = {};  // until the next decision, if the device is oversold
    view.share_promised = false;
  }
  actions.decisions.push_back({.device = device->spec.name, .vgpu = "", .what = SellingChanged{.mode = event.mode}});
  Decide(now, *device, actions);
  return Ok();
}

}  // namespace weir::engine
