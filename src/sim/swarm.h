// SPDX-License-Identifier: Apache-2.0
// Random scenarios, each drawn from one seed: devices, tenants, policies, changes, faults. During faults and changes
// the checkers test what must always hold. Then faults and changes end, and the promises of the policy must hold again
// (checkers.h).
//
//   0 s             programs start, settings and policies change, faults      kMended  + kSettled      kSwarmSpan
//   ├────────────────────────────────────────────────────────────────────────────┼──────────┼────────────────┤
//   └─────────────────────────────────── safety ─────────────────────────────────┘          └─── liveness ───┘
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace weir::sim {

inline constexpr Duration kSwarmSpan = seconds(20);
inline constexpr Duration kMended = seconds(9);  // there are no faults and changes afterwards

/// A scenario with one run. The same seed gives the same scenario with every compiler.
Scenario DrawScenario(std::uint64_t seed);

struct SeedPlayed {
  std::uint64_t seed = 0;
  Scenario scenario{};
  RunRecord record{};
  std::vector<std::string> objections{};  // the simulation's own, and the checkers'
};
SeedPlayed PlaySeed(std::uint64_t seed, const Tamper& tamper = {});

/// A text of several lines with everything that was drawn.
std::string Describe(const Scenario& scenario);

}  // namespace weir::sim
