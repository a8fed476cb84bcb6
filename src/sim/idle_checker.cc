// SPDX-License-Identifier: Apache-2.0
// Work conservation: under a policy that promises it, a device is without work for at most the policy's reaction time
// (core::ReactionTime) while a program waits at its gate, and for the time that the last frame took less than others of
// its program.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/schedule/proportional_share.h"
#include "core/schedule/round_robin.h"
#include "sim/checkers.h"

namespace weir::sim {
namespace {

/// Whether each of the program's presents waits for a vertical blank, even after the longest frames of all other
/// programs. Only then does its agent always wait for the frame's work before the present.
bool BlocksAlways(const Scenario& scenario, const Run& run, const Tenant& tenant) {
  Duration longest = LongestThink(tenant);
  for (const Tenant& other : scenario.tenants)
    if (other.device == tenant.device && Plays(run, other)) longest += LongestFrame(other) * other.processes;
  return tenant.scenes.size() == 1 && tenant.processes == 1 && longest < FromSeconds(0.8 / tenant.vsync_hz);
}

/// How long the device may be without work. No value: the policy promises nothing, or programs may be held back by
/// something else than the policy.
std::optional<Duration> IdleMost(const Scenario& scenario, const Run& run, const Stretch& stretch,
                                 std::uint32_t device) {
  Duration present{};  // the longest present: a frame in flight may have no work left on the device
  // How much longer a policy may think that the device has work: it expects a frame to take as long as frames before.
  Duration less{};
  for (const Tenant& tenant : scenario.tenants) {
    if (tenant.device != device || !Plays(run, tenant)) continue;
    for (std::int64_t s = stretch.from_s; s <= stretch.to_s; ++s)
      if (SettingsAt(run, tenant, seconds(s)).cap < Share::Whole()) return std::nullopt;
    if (tenant.customer || HasMemory(tenant)) return std::nullopt;
    if (tenant.vsync_hz > 0 && !BlocksAlways(scenario, run, tenant)) return std::nullopt;
    present = std::max(present, tenant.present);
    less = std::max(less, LongestFrame(tenant) - ShortestFrame(tenant));
  }
  if (stretch.policy == "round-robin")
    return core::ReactionTime(core::ParamsFrom<core::RoundRobinParams>(stretch.params)) + present + less;
  if (stretch.policy == "proportional-share")
    return core::ReactionTime(core::ParamsFrom<core::ProportionalShareParams>(stretch.params)) + present + less;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> CheckIdle(const Scenario& scenario, const Run& run, const RunRecord& record) {
  std::vector<std::string> objections;
  if (Sells(run)) return objections;
  for (std::uint32_t device = 0; device < record.longest_idle_ns_by_s.size(); ++device)
    for (const Stretch& stretch : CalmStretches(scenario, run, device)) {
      if (stretch.to_s - stretch.from_s < kStretchMin) continue;
      const std::optional<Duration> most = IdleMost(scenario, run, stretch, device);
      if (!most) continue;
      const std::vector<std::int64_t>& longest = record.longest_idle_ns_by_s[device];
      for (std::int64_t s = stretch.from_s; s < std::min(stretch.to_s, std::ssize(longest)); ++s)
        if (Duration idle{longest[static_cast<std::size_t>(s)]}; idle > *most)
          objections.push_back(
              fmt::format("idle: {} s: device {} had no work for {:.3f} ms while a program waited at its gate; {} "
                          "reacts in {:.3f} ms",
                          s, device, MillisecondsOf(idle), stretch.policy, MillisecondsOf(*most)));
    }
  return objections;
}

}  // namespace weir::sim
