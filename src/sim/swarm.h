// SPDX-License-Identifier: Apache-2.0
// Random scenarios, each from one seed: devices, tenants, policies, changes, faults. While faults happen, what must
// always hold is checked; then they stop, and what the policy promises must hold again (checkers.h).
//
//   0 s            everybody comes, settings and policies change, faults        kMended    kSettled    kSwarmSpan
//   ├────────────────────────────────────────────────────────────────────────────┼──────────┼────────────────┤
//   └─────────────────────────────────── safety ─────────────────────────────────┘          └─── liveness ───┘
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace weir::sim {

inline constexpr Duration kSwarmSpan = seconds(20);
inline constexpr Duration kMended = seconds(9);  // nothing breaks or changes afterwards

/// With one run. The same on every compiler.
Scenario DrawScenario(std::uint64_t seed);

struct SeedPlayed {
  std::uint64_t seed = 0;
  Scenario scenario{};
  RunRecord record{};
  std::vector<std::string> objections{};  // the simulation's own, and the checkers'
};
SeedPlayed PlaySeed(std::uint64_t seed, const Tamper& tamper = {});

/// Everything that was drawn, in lines.
std::string Describe(const Scenario& scenario);

}  // namespace weir::sim
