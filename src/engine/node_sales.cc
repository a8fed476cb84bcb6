// SPDX-License-Identifier: Apache-2.0
// Selling a device: applies the decisions of core/oversubscribe to the views of vGPUs, and writes the texts for users.
#include <fmt/format.h>

#include <algorithm>

#include "engine/node_engine.h"
#include "engine/node_state.h"

namespace weir::engine {
namespace {

using core::OversellNote;

std::string Percent(double part) { return fmt::format("{:.0f} %", part * 100); }

std::string InWords(const OversellNote& note, const std::string& from) {
  const std::string rate = fmt::format("{:.1f} of {:.1f} frames/s", note.rate, note.promised);
  const std::string use = fmt::format("{} of its cap of {} used", Percent(note.use), Percent(note.cap));
  switch (note.kind) {
    case OversellNote::Kind::kOverload:
      return "overloaded: " + (note.promised > 0 ? rate + ", " + use : use + ", which is below its ceiling");
    case OversellNote::Kind::kAtCeiling:
      return "needs more than was sold to it: " + rate + " at its ceiling of " + Percent(note.cap);
    case OversellNote::Kind::kRegained:
      return fmt::format("takes {} from {}, to {}", Percent(note.amount), from, Percent(note.cap));
    case OversellNote::Kind::kStolen:
      return fmt::format("overloaded, so {} of the unused cap of {}, the lightest, goes to it: {}",
                         Percent(note.amount), from, Percent(note.cap));
    case OversellNote::Kind::kWarning:
      return fmt::format("several are overloaded: this one should be moved to another device ({})", use);
    case OversellNote::Kind::kRelieved: return "it need not be moved any more";
    case OversellNote::Kind::kSellable:
      if (note.amount < 0.01) return fmt::format("nothing more can be sold: the load is {}", Percent(note.use));
      return fmt::format("a cap of up to {} can be sold: the load is {}", Percent(note.amount), Percent(note.use));
    case OversellNote::Kind::kBroken:
      return "its promise is broken: " + (note.promised > 0 ? rate : use + ", and it wants more");
    case OversellNote::Kind::kKept: return "its promise is kept again";
  }
  return "";
}

}  // namespace

std::string NodeEngine::NameOf(VgpuId id) const {
  const auto found = vgpus_.find(id);
  return found == vgpus_.end() ? "what was free" : found->second->name;
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
    actions.notes.push_back({.device = device.spec.name,
                             .kind = core::NameOf(note.kind),
                             .vgpu = note.vgpu ? NameOf(note.vgpu) : "",
                             .text = InWords(note, NameOf(note.from))});
    if (note.kind == OversellNote::Kind::kWarning)
      actions.leave.push_back({.vgpu = note.vgpu, .wanted = true, .why = "several vGPUs of its device are overloaded"});
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
  actions.notes.push_back({.device = device->spec.name,
                           .kind = "oversell",
                           .vgpu = "",
                           .text = std::string("selling is ") + core::NameOf(event.mode)});
  Decide(now, *device, actions);
  return Ok();
}

}  // namespace weir::engine
