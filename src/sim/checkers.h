// SPDX-License-Identifier: Apache-2.0
// What must hold of any run, computed from the scenario and from the model's own record of the device, independently of
// the engine. Each objection begins with the checker's name.
//
//   caps      in a whole second a vGPU uses at most its cap, a burst, and frames that cannot be cut short; no cap holds
//             while the daemon is dead
//   shares    proportional-share, round-robin: programs that always want the device share it by their weights
//   floor     same policies: each of these programs gets at least half of its weight's part of the device; the device
//             may idle at times to wait for the next frame of another program
//   idle      same policies: while a program waits at its gate, the device is idle for at most the reaction time
//   rates     sla-aware: no program is faster than promised; where the device easily suffices, each is as fast as
//             promised, within 2 %
//   reserve   no vGPU uses more than its weight's part of the device, plus frames that cannot be cut short
//   selling   no more is sold than the mode permits, and what is guaranteed is kept (CheckSelling)
//   progress  every program that is present finishes frames
//   memory    limits and the device's size hold, and buffers that are not on the device are copied (CheckMemory)
//   books     what agents took from the allowance, and the daemon's total, are the device's work for the vGPU
//
// Caps, books, memory and the sums of what is sold are checked for the whole run. The other promises hold only while
// nothing changes: they are checked in calm stretches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/policy_table.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::sim {

/// A program that waits at its gate for longer is starved (but see PatienceOf).
inline constexpr Duration kStarvedAfter = seconds(5);

/// Promises hold again when this time has passed after a change, a fault, a start or an end of a program.
inline constexpr Duration kSettled = seconds(2);

/// A calm stretch: whole seconds of a run in which nothing changes on a device, from kSettled after the last change on.
struct Stretch {
  std::int64_t from_s = 0;
  std::int64_t to_s = 0;
  std::string policy{};
  core::PolicyParams params{};
};
std::vector<Stretch> CalmStretches(const Scenario& scenario, const Run& run, std::uint32_t device);

/// Shares and rates are not checked in shorter stretches, in which single frames weigh too much.
inline constexpr std::int64_t kStretchMin = 4;  // seconds

/// Whether the tenant's programs have buffers in any scene.
bool HasMemory(const Tenant& tenant);
/// Whether the tenant takes part in the run.
bool Plays(const Run& run, const Tenant& tenant);
/// The settings in force at `at` of the run.
engine::VgpuSettings SettingsAt(const Run& run, const Tenant& tenant, Duration at);

/// GPU time that a tenant's programs may use beyond their allowance: for each process one frame, which cannot be cut
/// short, and the work in its queue.
Duration ExtentOf(const Tenant& tenant);
/// GPU time of the tenant's longest and shortest frame, and the longest CPU time of a frame.
Duration LongestFrame(const Tenant& tenant);
Duration ShortestFrame(const Tenant& tenant);
Duration LongestThink(const Tenant& tenant);

/// How long a tenant may wait at its gate: kStarvedAfter, plus twice the time in which its part of the device pays for
/// its own extent (ExtentOf) and the device runs the extents of all its tenants.
Duration PatienceOf(const Scenario& scenario, const Run& run, const Tenant& tenant);

/// How long a frame may wait for elastic memory while there is no fault: kStarvedAfter, plus a turn and a switch for
/// each other tenant and its own switch, all as slow as possible.
Duration MemoryPatienceOf(const Scenario& scenario, const Run& run, const Tenant& tenant);

/// Checks the memory of any scenario, from the record alone:
///
/// - No vGPU holds more than its limit, and all together hold no more than the device has.
/// - Buffers that a frame reads and that are not on the device are copied. No more is copied than the link can carry.
/// - Elastic memory: the slots on the device and the assigned slots of all together are no more than the device has;
///   only assigned slots are restored; slots that are no longer assigned are evicted; frames that wait are served.
std::vector<std::string> CheckMemory(const Scenario& scenario, const Run& run, const RunRecord& record);

/// Checks the selling of any scenario, from the record alone:
///
/// - No more is sold than the mode permits, and no request that fits is refused.
/// - Under the policy `cap`, in times without sales and changes: a tenant with a guaranteed ceiling gets it while it
///   always wants it, and its promised frames where its ceiling and its interval easily suffice for them. Under
///   adaptive selling, a device of which a tenant always wants a part is not left idle.
std::vector<std::string> CheckSelling(const Scenario& scenario, const Run& run, const RunRecord& record);

/// Checks, under policies that promise a reaction time, that no device is idle for longer while a program waits.
std::vector<std::string> CheckIdle(const Scenario& scenario, const Run& run, const RunRecord& record);

/// Whether devices are sold at any time of the run.
bool Sells(const Run& run);

/// All checks. Returns objections; none: everything held. The record must be of the whole span.
std::vector<std::string> CheckRun(const Scenario& scenario, const Run& run, const RunRecord& record);

}  // namespace weir::sim
