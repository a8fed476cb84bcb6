// SPDX-License-Identifier: Apache-2.0
#include "drivers/driver_loop.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace weir::drivers {
namespace {

constexpr int kDoublingsMax = 20;
constexpr double kCapAlmost = 1.5e-6;  // caps are rounded to millionths

std::string RetryKey(const Action& action) { return std::to_string(static_cast<int>(action.kind)) + action.vgpu; }

}  // namespace

DriverLoop::DriverLoop(LoopSettings settings, std::uint64_t seed) : settings_(std::move(settings)), prng_(seed) {}

bool DriverLoop::MayRetry(Instant now, const Action& action) const {
  const auto found = retries_.find(RetryKey(action));
  return found == retries_.end() || now >= found->second.not_before;
}

void DriverLoop::Propose(Instant now, Action action, std::vector<Action>& actions) const {
  if (MayRetry(now, action)) actions.push_back(std::move(action));
}

std::vector<Action> DriverLoop::Step(Instant now, const Sighting& seen) {
  std::vector<Action> actions;
  if (!began_) began_ = now;
  if (seen.node) node_seen_ = now;
  if (!seen.published) Propose(now, {.kind = ActionKind::kPublish, .shares = settings_.shares}, actions);
  if (!seen.published || !seen.usage) return actions;
  FollowOffer(now, seen, actions);
  if (seen.node) FollowGrants(now, *seen.node, *seen.usage, actions);
  return actions;
}

void DriverLoop::FollowOffer(Instant now, const Sighting& seen, std::vector<Action>& actions) {
  std::int64_t wanted = seen.usage->sellable;
  if (seen.node)
    wanted = SellableOf(*seen.node, settings_.shares);
  else if (now - node_seen_.value_or(*began_) >= settings_.node_lost)
    wanted = 0;
  wanted = std::min(wanted, seen.usage->sellable_max);
  if (wanted != seen.usage->sellable) Propose(now, {.kind = ActionKind::kSetSellable, .shares = wanted}, actions);
}

void DriverLoop::FollowGrants(Instant now, const NodeView& node, const Usage& usage, std::vector<Action>& actions) {
  std::set<std::string> granted;
  for (const Grant& grant : usage.grants) {
    const auto name = VgpuNameOf(settings_.prefix, grant.consumer);
    if (!name) continue;
    granted.insert(*name);
    missed_.erase(*name);
    const double cap = CapOf(grant.shares, settings_.shares);
    const auto there = std::ranges::find(node.vgpus, *name, &ConsumerVgpu::name);
    if (there == node.vgpus.end())
      Propose(now, {.kind = ActionKind::kMakeVgpu, .vgpu = *name, .shares = grant.shares, .cap = cap, .uid = grant.uid},
              actions);
    else if (std::abs(there->cap - cap) > kCapAlmost || there->weight != WeightOf(grant.shares))
      Propose(now, {.kind = ActionKind::kResize, .vgpu = *name, .shares = grant.shares, .cap = cap}, actions);
  }
  std::set<std::string> here;
  for (const ConsumerVgpu& vgpu : node.vgpus) {
    here.insert(vgpu.name);
    if (granted.contains(vgpu.name) || ++missed_[vgpu.name] < kLooksMissed) continue;
    if (vgpu.attached && vgpu.cap > kSqueezedCap + kCapAlmost)
      Propose(now, {.kind = ActionKind::kSqueeze, .vgpu = vgpu.name, .cap = kSqueezedCap}, actions);
    if (!vgpu.attached) Propose(now, {.kind = ActionKind::kRemoveVgpu, .vgpu = vgpu.name}, actions);
  }
  std::erase_if(missed_, [&](const auto& entry) { return !here.contains(entry.first); });
  // Drops retries of vGPUs that neither exist nor are requested any more.
  std::erase_if(retries_, [&](const auto& entry) {
    const std::string vgpu = entry.first.substr(1);
    return !vgpu.empty() && !granted.contains(vgpu) && !here.contains(vgpu);
  });
}

void DriverLoop::Done(Instant now, const Action& action, bool well) {
  if (well) {
    retries_.erase(RetryKey(action));
    return;
  }
  Retry& retry = retries_[RetryKey(action)];
  const double doubled =
      std::ldexp(static_cast<double>(settings_.retry_min.count()), std::min(retry.failures, kDoublingsMax));
  const double pause = std::min(doubled, static_cast<double>(settings_.retry_max.count()));
  // Between half of the pause and all of it, so that drivers that failed together do not retry together.
  retry.not_before = now + Duration{static_cast<std::int64_t>(pause * (0.5 + 0.5 * prng_.Uniform()))};
  retry.failures = std::min(retry.failures + 1, kDoublingsMax);
}

}  // namespace weir::drivers
