// SPDX-License-Identifier: Apache-2.0
// Promised rates: whether the policy of the device keeps them, what they need, and whether that fits the device.
// core/oversubscribe/promised_load decides; this file applies it to the node's vGPUs, and writes the texts for users.
#include <fmt/format.h>

#include "engine/decision_text.h"
#include "engine/node_engine.h"
#include "engine/node_state.h"

namespace weir::engine {
namespace {

constexpr Duration kPromisesEvery = seconds(1);

/// "a, b": the names from `from` up to `to`.
template <typename Names>
std::string Joined(const Names& names, std::size_t from, std::size_t to) {
  std::string text;
  for (std::size_t i = from; i < to; ++i) text += fmt::format("{}{}", i == from ? "" : ", ", names[i]);
  return text;
}

std::string PartText(double part) { return fmt::format("{:.0f} %", part * 100); }

/// "60 frames/s", "5 tasks/s", "a frame every 20 ms".
std::string RateText(const VgpuSettings& settings) {
  if (settings.latency > Duration{0} && PromisedInterval(settings) == settings.latency)
    return fmt::format("a frame every {:g} ms", MillisecondsOf(settings.latency));
  return fmt::format("{:g} {}/s", settings.promised_rate(), settings.fps > 0 ? "frames" : "tasks");
}

/// One line: what the promise needs, what the others need, and whether that fits.
std::string InWords(const PromiseStatus& promise, const std::string& device, const std::string& vgpu,
                    const VgpuSettings& settings, bool over_cap) {
  std::string others = fmt::format("{} of {} is promised to others", PartText(promise.others), device);
  if (promise.others_unknown > 0)
    others += fmt::format(", besides {} vGPU{} whose cost is not known yet", promise.others_unknown,
                          promise.others_unknown == 1 ? "" : "s");
  const std::string rate = RateText(settings);
  if (promise.cost.loops == 0)
    return fmt::format(
        "{}; {}; {}", rate, others,
        promise.fit == PromiseFit::kTooMuch
            ? "it does not fit"
            : fmt::format("its cost is not known yet: 'weir vgpu show {}' says later whether it fits", vgpu));
  const std::string needs =
      fmt::format("{} need{} {} of {}", rate, rate.starts_with('a') ? "s" : "", PartText(promise.need), device);
  if (over_cap) return fmt::format("{}, more than the cap of {}", needs, PartText(settings.cap.Fraction()));
  return fmt::format("{}; {}: {}", needs, others,
                     promise.fit == PromiseFit::kTooMuch ? "it does not fit"
                     : promise.others_unknown > 0        ? "it may fit"
                                                         : "it fits");
}

}  // namespace

const char* NameOf(PromiseFit fit) {
  switch (fit) {
    case PromiseFit::kUnknown: return "unknown";
    case PromiseFit::kFits: return "yes";
    case PromiseFit::kTooMuch: return "no";
  }
  return "unknown";
}

bool NodeEngine::KeepsRates(const Device_& device) { return core::KeepsRates(*device.entry, device.params); }

/// Upper bound of the time that a frame of the vGPU waited in the driver for others. None: the vGPU uses all of its own
/// cap, so that it waits for its cap and not for others.
std::optional<Duration> NodeEngine::WaitsForOthersMost(Instant now, const Vgpu_& vgpu) {
  constexpr double kNearlyAll = 0.95;
  const Share cap = vgpu.settings.cap;
  if (cap < Share::Whole() && vgpu.marks.Rate(now, vgpu.View().used) >= kNearlyAll * cap.Fraction())
    return std::nullopt;
  return vgpu.device->OthersUse(now, vgpu);
}

/// The text that the policy of the device ignores rates, and how to change that.
std::string NodeEngine::Unkept(const Device_& device) {
  const std::vector<std::string_view> keep = core::PoliciesThatKeepRates();
  return fmt::format(
      "the policy of {0}, {1}, ignores promised rates and latencies; 'weir policy {2} --device {0}' keeps them (as do: "
      "{3})",
      device.spec.name, device.entry->name, keep.front(), Joined(keep, 1, keep.size()));
}

/// The part of its device that the promise of the vGPU needs. A promised share needs what is used, as in the load of
/// Oversell.
double NodeEngine::NeedOf(Instant now, const Vgpu_& vgpu) {
  if (vgpu.device->sales->SaleOf(vgpu.id) == core::Sale::kBestEffort) return 0;
  const core::VgpuView& view = vgpu.View();
  if (view.promised > Duration{0}) return core::NeedOf(view.promised, vgpu.costs.Now().each, vgpu.settings.cap);
  return view.share_promised ? std::min(vgpu.marks.Rate(now, view.used), 1.0) : 0;
}

/// Adds up what the promises of a device need, and reports when that stops fitting and when it fits again. Walks over
/// all vGPUs with promises, so it is called once in kPromisesEvery, and when promises have changed.
void NodeEngine::SeePromises(Instant now, Device_& device, Actions& actions) {
  const bool regular = device.promises_at != Instant{};
  device.promises_at = now + kPromisesEvery;
  device.promised = 0;
  device.promised_unknown = 0;
  // Without overselling, only promised rates and latencies need anything. A change of one clears `promises_at`, so the
  // list of the last check is complete.
  const bool all = !regular || device.sales->mode() != core::OversellMode::kOff;
  if (all) device.promising = device.all;
  for (Vgpu_* vgpu : device.promising) {
    vgpu->unknown_need = vgpu->View().promised > Duration{0} && vgpu->costs.Now().loops == 0 &&
                         device.sales->SaleOf(vgpu->id) != core::Sale::kBestEffort;
    vgpu->need = NeedOf(now, *vgpu);
    device.promised += vgpu->need;
    device.promised_unknown += vgpu->unknown_need ? 1 : 0;
  }
  if (all) std::erase_if(device.promising, [](const Vgpu_* vgpu) { return vgpu->View().promised == Duration{0}; });
  const auto change = regular ? device.fit.See(device.promised) : core::FitWatch::Change::kNone;
  if (change == core::FitWatch::Change::kNone) return;
  const bool fits = change == core::FitWatch::Change::kFits;
  actions.decisions.push_back(
      {.device = device.spec.name,
       .vgpu = "",
       .what = PromisesSeen{
           .need = device.promised, .fit = fits, .giving_way = fits ? std::vector<std::string>() : GivingWay(device)}});
}

/// The vGPUs whose promises the device can't keep if heavier ones come first, by name.
std::vector<std::string> NodeEngine::GivingWay(const Device_& device) {
  std::vector<core::PromiseClaim> claims;
  for (const Vgpu_* vgpu : device.all)
    claims.push_back({.id = vgpu->id, .index = vgpu->place, .weight = vgpu->settings.weight, .need = vgpu->need});
  core::Grant(claims);
  std::vector<std::string> names;
  for (const core::PromiseClaim& claim : claims)
    if (claim.gives_way()) names.push_back(device.all[claim.index]->name);
  std::ranges::sort(names);
  return names;
}

/// The status of the promise in `settings`, for `vgpu`, or for a new vGPU if `vgpu` is null.
PromiseStatus NodeEngine::PromiseOf(const Device_& device, const Vgpu_* vgpu, const VgpuSettings& settings) {
  const Duration interval = PromisedInterval(settings);
  if (interval == Duration{0}) return {};
  PromiseStatus status{.given = true,
                       .kept_by_policy = KeepsRates(device),
                       .fit = PromiseFit::kUnknown,
                       .cost = vgpu != nullptr ? vgpu->costs.Now() : core::LoopCost{},
                       .others = std::max(device.promised - (vgpu != nullptr ? vgpu->need : 0), 0.0),
                       .others_unknown = device.promised_unknown - (vgpu != nullptr && vgpu->unknown_need ? 1 : 0)};
  const bool known = status.cost.loops > 0;
  // Not limited to the cap: a need above the cap is a separate reason not to fit.
  status.need = SecondsOf(status.cost.each) / SecondsOf(interval);
  const bool over_cap = settings.cap < Share::Whole() && status.need > settings.cap.Fraction();
  const double together = status.others + status.need;
  if (over_cap || together > core::FitWatch::kOver || (!known && status.others >= core::FitWatch::kOver))
    status.fit = PromiseFit::kTooMuch;
  else if (known && status.others_unknown == 0)
    status.fit = PromiseFit::kFits;
  status.text = InWords(status, device.spec.name, vgpu != nullptr ? vgpu->name : "NAME", settings, over_cap);
  if (!status.kept_by_policy) status.warnings.push_back(Unkept(device));
  if (status.fit == PromiseFit::kTooMuch && over_cap)
    status.warnings.push_back("its promise does not fit its cap: raise the cap, or promise less");
  else if (status.fit == PromiseFit::kTooMuch)
    status.warnings.push_back(fmt::format(
        "the promises on {} need {} of it: promise less, or give more weight to those that are to be kept and "
        "set the policy's give_way=1",
        device.spec.name, PartText(together)));
  return status;
}

PromiseStatus NodeEngine::Promise(VgpuId id) const {
  const Vgpu_* vgpu = Find(id);
  return vgpu == nullptr ? PromiseStatus{} : PromiseOf(*vgpu->device, vgpu, vgpu->settings);
}

/// Refuses a promise that is known not to fit, if the device is sold with refuse_rates. A promise that is not raised is
/// never refused, unless the cap is lowered.
Status NodeEngine::CheckPromise(const Device_& device, const Vgpu_* vgpu, const VgpuSettings& asked) {
  if (!device.sales->refuses_rates()) return Ok();
  const Duration before = vgpu == nullptr ? Duration{0} : PromisedInterval(vgpu->settings);
  const Duration interval = PromisedInterval(asked);
  const bool raised = interval > Duration{0} && (before == Duration{0} || interval < before);
  const bool lower_cap = vgpu != nullptr && asked.cap < vgpu->settings.cap;
  if (!raised && !(lower_cap && interval > Duration{0})) return Ok();
  const PromiseStatus status = PromiseOf(device, vgpu, asked);
  if (status.fit != PromiseFit::kTooMuch) return Ok();
  return Fail(
      Errc::kResourceExhausted,
      fmt::format("the promise does not fit: {}. Promise less, or have {} only warn ('weir oversell {} --device "
                  "{} --param refuse_rates=0')",
                  status.text, device.spec.name, core::NameOf(device.sales->mode()), device.spec.name));
}

std::vector<std::string> NodeEngine::WarningsOf(const Device_& device) {
  if (KeepsRates(device)) return {};
  std::vector<std::string> promised;
  for (const Vgpu_* vgpu : device.all)
    if (PromisedInterval(vgpu->settings) > Duration{0}) promised.push_back(vgpu->name);
  if (promised.empty()) return {};
  std::ranges::sort(promised);
  return {fmt::format("{}; promised to: {}", Unkept(device), NamesInWords(promised))};
}

}  // namespace weir::engine
