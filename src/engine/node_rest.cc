// SPDX-License-Identifier: Apache-2.0
// Which vGPUs of a device rest. A vGPU that has been idle for longer than its policy remembers rests: decisions leave
// it out, its allowance stays, its gate is not sampled, and its agents ring the doorbell at entry instead. It becomes
// active before the next decision once a sample of its gate or an event shows a change.
//
//   views     0 ──── active, by place ──── active ──── resting, in any order ──── size
#include <algorithm>

#include "engine/node_state.h"

namespace weir::engine {
namespace {

/// Time beyond what the policy remembers, until an idle vGPU rests. Within it, decisions take in what follows from the
/// idleness: the rate of the last second is zero, and the vGPUs that give way are chosen again.
constexpr Duration kSettles = milliseconds(250);

}  // namespace

core::RestingVgpus NodeEngine::Device_::Resting() const {
  core::RestingVgpus resting = rest;
  resting.views = std::span(views).subspan(active);
  return resting;
}

void NodeEngine::Device_::CountResting(const core::VgpuView& view, bool more) {
  const auto add = [more](auto& sum, auto amount) { sum = more ? sum + amount : sum - amount; };
  add(rest.weights, view.weight);
  add(rest.cap_weights, core::CapWeight(view));
  add(rest.attached, view.attached ? 1U : 0U);
  ++rest.changes;
}

void NodeEngine::Device_::MoveTo(std::size_t index, const core::VgpuView& view, Vgpu_* owner) {
  views[index] = view;
  owners[index] = owner;
  owner->index = index;
}

void NodeEngine::Device_::Swap(std::size_t a, std::size_t b) {
  if (a == b) return;
  std::swap(views[a], views[b]);
  std::swap(owners[a], owners[b]);
  owners[a]->index = a;
  owners[b]->index = b;
}

/// Moves the last active vGPU to where its place belongs among the active ones.
void NodeEngine::Device_::SortIn() {
  const core::VgpuView view = views[active - 1];
  Vgpu_* const owner = owners[active - 1];
  std::size_t hole = active - 1;
  for (; hole > 0 && owners[hole - 1]->place > owner->place; --hole) MoveTo(hole, views[hole - 1], owners[hole - 1]);
  MoveTo(hole, view, owner);
}

void NodeEngine::Device_::Place(Vgpu_& vgpu) {
  const auto fresh = static_cast<std::uint32_t>(views.size());
  const std::uint32_t slot = free_slots.empty() ? fresh : free_slots.back();
  if (!free_slots.empty()) free_slots.pop_back();
  vgpu.place = all.size();
  vgpu.index = views.size();
  all.push_back(&vgpu);
  owners.push_back(&vgpu);
  rated_at = -1;
  promises_at = {};
  rate_caps_at = {};
  views.push_back({.id = vgpu.id,
                   .slot = slot,
                   .weight = vgpu.settings.weight,
                   .cap = sales->CapOf(vgpu.id),
                   .promised = PromisedInterval(vgpu.settings)});
  Swap(active++, vgpu.index);
}

/// The vGPU with the last place moves to the place that becomes free.
void NodeEngine::Device_::Drop(const Vgpu_& vgpu) {
  const core::VgpuView view = vgpu.View();
  gone += view.used;
  gone_most += vgpu.UsedMost();
  promises_at = {};
  rate_caps_at = {};
  free_slots.push_back(view.slot);
  if (vgpu.resting()) {
    CountResting(view, false);
    rest_used -= vgpu.used_at_rest;
    Swap(vgpu.index, views.size() - 1);
  } else {
    for (std::size_t i = vgpu.index + 1; i < active; ++i) MoveTo(i - 1, views[i], owners[i]);
    if (--active + 1 < views.size()) MoveTo(active, views.back(), owners.back());
  }
  views.pop_back();
  owners.pop_back();
  Vgpu_* const last = all.back();
  all.pop_back();
  if (last == &vgpu) return;
  all[vgpu.place] = last;
  last->place = vgpu.place;
  if (!last->resting()) SortIn();  // its view was the last one of the active vGPUs
}

void NodeEngine::Device_::Wake(Instant now, Vgpu_& vgpu, Actions& actions) {
  if (!vgpu.resting()) return;
  woken.push_back(&vgpu);
  WakeThese(now, actions);
}

void NodeEngine::Device_::WakeAll(Instant now, Actions& actions) {
  woken.assign(owners.begin() + static_cast<std::ptrdiff_t>(active), owners.end());
  WakeThese(now, actions);
}

/// Merges the views of the woken vGPUs with the active ones, by place, from the back.
void NodeEngine::Device_::WakeThese(Instant now, Actions& actions) {
  if (woken.empty()) return;
  std::ranges::sort(woken, {}, &Vgpu_::place);
  woken.erase(std::unique(woken.begin(), woken.end()), woken.end());
  const std::size_t before = active;
  for (Vgpu_* vgpu : woken) {
    core::VgpuView& view = vgpu->View();
    CountResting(view, false);
    rest_used -= vgpu->used_at_rest;
    view.rate = vgpu->frames.Rate(now);
    Swap(vgpu->index, active++);
    actions.rest.push_back({vgpu->id, false});
  }
  moved.clear();
  for (std::size_t i = before; i < active; ++i) moved.push_back(views[i]);
  std::size_t left = before, to = active;
  for (std::size_t i = woken.size(); i > 0; --i) {
    for (; left > 0 && owners[left - 1]->place > woken[i - 1]->place; --left)
      MoveTo(--to, views[left - 1], owners[left - 1]);
    MoveTo(--to, moved[i - 1], woken[i - 1]);
  }
  woken.clear();
}

Duration NodeEngine::Device_::RestsAfter(const core::VgpuView& view) const {
  return std::max(policy->remembers(), 2 * view.promised) + kSettles;
}

bool NodeEngine::Device_::MayRest(const core::VgpuView& view, Instant now) const {
  const bool idle = view.waiting == 0 && view.in_flight == 0 && !view.stuck && !view.held && view.rate == 0;
  return idle && now - view.last_active >= RestsAfter(view);
}

void NodeEngine::Device_::LetRest(Instant now, Actions& actions) {
  // Overselling and elastic memory also decide about idle vGPUs.
  if (sales->mode() != core::OversellMode::kOff || memory) return;
  moved.clear();
  moved_owners.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < active; ++i) {
    // A vGPU whose rate implies a cap may rest once that cap is lifted.
    if (!MayRest(views[i], now) || owners[i]->rate_capped) {
      if (kept != i) MoveTo(kept, views[i], owners[i]);
      ++kept;
      continue;
    }
    moved.push_back(views[i]);
    moved_owners.push_back(owners[i]);
  }
  for (std::size_t i = 0; i < moved.size(); ++i) {
    MoveTo(kept + i, moved[i], moved_owners[i]);
    CountResting(moved[i], true);
    moved_owners[i]->used_at_rest = moved[i].used;
    rest_used += moved[i].used;
    actions.rest.push_back({moved[i].id, true});
  }
  active = kept;
}

}  // namespace weir::engine
