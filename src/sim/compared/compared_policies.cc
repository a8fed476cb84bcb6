// SPDX-License-Identifier: Apache-2.0
#include "sim/compared/compared_policies.h"

#include <array>
#include <string>

#include "sim/compared/band.h"
#include "sim/compared/borrowed_virtual_time.h"
#include "sim/compared/disengaged.h"
#include "sim/compared/start_time_fair.h"
#include "sim/compared/utilization_slices.h"

namespace weir::sim {
namespace {

constexpr std::array kCompared{
    core::MakeEntry<StartTimeFairParams, &MakeStartTimeFair>(
        "sfq", "start-time fair queueing, SFQ(D): the request with the least start tag goes next"),
    core::MakeEntry<BorrowedVirtualTimeParams, &MakeBorrowedVirtualTime>(
        "bvt", "borrowed virtual time without warps: the least virtual time runs, with an allowance to run ahead"),
    core::MakeEntry<DisengagedParams, &MakeDisengaged>(
        "disengaged", "disengaged fair queueing: free runs, from which vGPUs that are far ahead are kept out"),
    core::MakeEntry<BandParams, &MakeBand>("gdev-band", "Gdev's BAND: credits and bandwidths, one vGPU at a time"),
    core::MakeEntry<UtilizationSlicesParams, &MakeUtilizationSlices>(
        "xsched-up", "XSched's utilization partition: slices of time in a ring, passed on when a vGPU has no work"),
};

}  // namespace

std::span<const core::PolicyEntry> ComparedPolicies() { return kCompared; }

const core::PolicyEntry* FindCompared(std::string_view name) {
  for (const core::PolicyEntry& entry : kCompared)
    if (entry.name == name) return &entry;
  return nullptr;
}

Result<const core::PolicyEntry*> FindScenarioPolicy(std::string_view name) {
  if (const core::PolicyEntry* entry = FindCompared(name)) return entry;
  auto found = core::FindPolicy(name);
  if (found) return found;
  std::string message = found.error().message + "; published schedulers, to compare with:";
  for (const core::PolicyEntry& entry : kCompared) message += " " + std::string(entry.name);
  return Fail(found.error().code, std::move(message));
}

}  // namespace weir::sim
