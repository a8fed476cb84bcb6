// SPDX-License-Identifier: Apache-2.0
// Published schedulers, to compare Weir's policies with on the same scenarios. Only the simulator knows them: no user
// can choose them for a real device. Each sees what a policy of Weir's sees, and acts through the same gate.
// Page: docs/policies/compared.md
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "core/schedule/policy_table.h"

namespace weir::sim {

std::span<const core::PolicyEntry> ComparedPolicies();

/// A published scheduler; null: there is none of this name.
const core::PolicyEntry* FindCompared(std::string_view name);

/// A policy of Weir's or a published scheduler. kNotFound for an unknown name (the message lists all of them).
Result<const core::PolicyEntry*> FindScenarioPolicy(std::string_view name);

}  // namespace weir::sim
