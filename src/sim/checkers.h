// SPDX-License-Identifier: Apache-2.0
// What must hold of any run, recomputed from the model's own record of the device and never from the engine's books.
// Each objection begins with the checker's name.
//
//   caps      over a whole second: cap, burst of the bucket and frames that can't be cut short; not under a dead daemon
//   shares    proportional-share, round-robin: programs that want the device all the time share it by their weights
//   floor     the same: and at least half of its weight's part of the device (which is kept idle for others at times)
//   idle      the same: while a program waits at its gate, the device is without work for the reaction time at most
//   rates     sla-aware: nobody is faster than promised; where the device suffices by far, each is as fast within 2 %
//   reserve   nobody uses more than its weight's part of the device, plus frames that can't be cut short
//   selling   ceilings add up to what is sold, who was sold one firmly has it (CheckSelling)
//   progress  everybody who is there gets on
//   memory    limits and the device's size hold, and what is not held is copied (CheckMemory)
//   books     what agents took from the allowance is what the device did for them
//
// Caps hold at any time. The others are promises for when nothing changes: they are checked in calm stretches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/policy_table.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::sim {

/// Who waits at its gate for longer, with nobody pausing it, is starved (but see PatienceOf).
inline constexpr Duration kStarvedAfter = seconds(5);

/// After something changed, broke, came or went, promises hold again within this.
inline constexpr Duration kSettled = seconds(2);

/// Whole seconds of a run in which nothing happens to a device, and nothing has for kSettled.
struct Stretch {
  std::int64_t from_s = 0;
  std::int64_t to_s = 0;
  std::string policy{};
  core::PolicyParams params{};
};
std::vector<Stretch> CalmStretches(const Scenario& scenario, const Run& run, std::uint32_t device);

/// Shorter stretches say little about shares and rates.
inline constexpr std::int64_t kStretchMin = 4;  // seconds

bool HasMemory(const Tenant& tenant);
/// Whether the tenant takes part in the run.
bool Plays(const Run& run, const Tenant& tenant);
/// The settings in force at `at` of the run.
engine::VgpuSettings SettingsAt(const Run& run, const Tenant& tenant, Duration at);

/// GPU time that a tenant's programs may use beyond what they are allowed to: of each process a frame, which can't be
/// cut short, and what its queue holds.
Duration ExtentOf(const Tenant& tenant);
/// GPU time and own time of its longest frames.
Duration LongestFrame(const Tenant& tenant);
Duration LongestThink(const Tenant& tenant);

/// How long a tenant may wait at its gate: kStarvedAfter, and the time in which its part of the device pays for its
/// longest frames and for those of everybody beside it.
Duration PatienceOf(const Scenario& scenario, const Run& run, const Tenant& tenant);

/// How long a frame may wait for its memory where that is elastic, while nothing breaks: behind each other one for a
/// turn and a switch, the slowest there could be.
Duration MemoryPatienceOf(const Scenario& scenario, const Run& run, const Tenant& tenant);

/// Memory, of any scenario: nobody holds more than its limit, all no more than the device has; what a frame reads and
/// doesn't hold is copied for it, and no more is copied than the link carries. Where it is elastic: what is there of
/// all, or may be, is no more than the device; nobody restores what is not its own; what is ordered away goes; who
/// waits is served. From the record alone.
std::vector<std::string> CheckMemory(const Scenario& scenario, const Run& run, const RunRecord& record);

/// Selling, of any scenario. Strict and static: what is sold together is no more than may be, and nobody is refused
/// what fits. Where caps are kept by `cap` and nothing is sold or changed: who was sold its ceiling firmly has it while
/// it wants it, and the frames that it was promised where its ceiling and the time between them suffice by far; and
/// what somebody wants all the time is not left idle. From the record alone.
std::vector<std::string> CheckSelling(const Scenario& scenario, const Run& run, const RunRecord& record);

/// Devices that are idle while a program waits, under policies that leave none idle for longer than their reaction
/// time.
std::vector<std::string> CheckIdle(const Scenario& scenario, const Run& run, const RunRecord& record);

/// Whether a run's devices are sold, at any time of it.
bool Sells(const Run& run);

/// Objections; none: everything held. The record must be of the whole span.
std::vector<std::string> CheckRun(const Scenario& scenario, const Run& run, const RunRecord& record);

}  // namespace weir::sim
