// SPDX-License-Identifier: Apache-2.0
// What becomes of promised rates, in words: whether the policy of the device keeps them.
#include <fmt/format.h>

#include "engine/node_engine.h"
#include "engine/node_state.h"

namespace weir::engine {
namespace {

constexpr std::size_t kNamedMax = 5;

/// "a, b", from the name at `from` on.
template <typename Names>
std::string Joined(const Names& names, std::size_t from, std::size_t to) {
  std::string text;
  for (std::size_t i = from; i < to; ++i) text += fmt::format("{}{}", i == from ? "" : ", ", names[i]);
  return text;
}

/// "a, b and 3 more".
std::string Listed(const std::vector<std::string>& names) {
  const std::size_t named = std::min(names.size(), kNamedMax);
  const std::string text = Joined(names, 0, named);
  return names.size() > named ? text + fmt::format(" and {} more", names.size() - named) : text;
}

}  // namespace

bool NodeEngine::KeepsRates(const Device_& device) {
  const auto entry = core::FindPolicy(device.policy_name);
  return entry && core::KeepsRates(**entry, device.params);
}

/// That the policy of the device ignores rates, and how to change it.
std::string NodeEngine::Unkept(const Device_& device) {
  const std::vector<std::string_view> keep = core::PoliciesThatKeepRates();
  return fmt::format(
      "the policy of {0}, {1}, ignores promised rates and latencies; 'weir policy {2} --device {0}' keeps them (as do: "
      "{3})",
      device.spec.name, device.policy_name, keep.front(), Joined(keep, 1, keep.size()));
}

PromiseStatus NodeEngine::Promise(VgpuId id) const {
  const Vgpu_* vgpu = Find(id);
  if (vgpu == nullptr || PromisedInterval(vgpu->settings) == Duration{0}) return {};
  PromiseStatus status{.given = true, .kept_by_policy = KeepsRates(*vgpu->device), .warnings = {}};
  if (!status.kept_by_policy) status.warnings.push_back(Unkept(*vgpu->device));
  return status;
}

std::vector<std::string> NodeEngine::WarningsOf(const Device_& device) {
  if (KeepsRates(device)) return {};
  std::vector<std::string> promised;
  for (const Vgpu_* vgpu : device.owners)
    if (PromisedInterval(vgpu->settings) > Duration{0}) promised.push_back(vgpu->name);
  if (promised.empty()) return {};
  std::ranges::sort(promised);
  return {fmt::format("{}; promised to: {}", Unkept(device), Listed(promised))};
}

}  // namespace weir::engine
