// SPDX-License-Identifier: Apache-2.0
// The only list of policies. The command line, HTTP API, metrics and docs are derived from it; a new policy adds one
// line.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/schedule/policy.h"
#include "core/schedule/policy_params.h"

namespace weir::core {

/// Whether a policy keeps promised rates and latencies. One that doesn't only reports them.
struct RateKeeping {
  bool keeps = false;
  std::string_view off_at_zero{};  // parameter that is 0 where the policy ignores rates; empty: it always keeps them
};

/// One policy. `make` expects parameters that CheckParams has completed.
struct PolicyEntry {
  std::string_view name;
  std::string_view summary;
  std::span<const PolicyParam> params;
  std::unique_ptr<Policy> (*make)(const PolicyParams& checked);
  RateKeeping rates{};
};

/// An entry for a policy that declares its parameters as policy_params.h describes.
template <typename Params, std::unique_ptr<Policy> (*Make)(const Params&)>
constexpr PolicyEntry MakeEntry(std::string_view name, std::string_view summary, RateKeeping rates = {}) {
  return {name, summary, kParamTable<Params>,
          [](const PolicyParams& checked) { return Make(ParamsFrom<Params>(checked)); }, rates};
}

std::span<const PolicyEntry> PolicyTable();
inline constexpr std::string_view kDefaultPolicy = "proportional-share";

/// kNotFound for an unknown name (the message lists the known ones).
Result<const PolicyEntry*> FindPolicy(std::string_view name);

/// Fills in defaults. kInvalidArgument for an unknown parameter or a value out of range.
Result<PolicyParams> CheckParams(const PolicyEntry& entry, const PolicyParams& given);

/// The value of a named choice. kInvalidArgument lists the names.
Result<double> ValueOfChoice(const PolicyEntry& entry, std::string_view param, std::string_view choice);
/// The name of a parameter's value when it is a choice, else empty.
std::string_view NameOfChoice(std::string_view policy, std::string_view param, double value);

/// Whether the policy keeps promised rates with these parameters; absent ones have their defaults.
bool KeepsRates(const PolicyEntry& entry, const PolicyParams& params);
/// The names of the policies that keep promised rates, in the table's order: the first is the simplest choice.
std::vector<std::string_view> PoliciesThatKeepRates();

/// Finds the policy, checks the parameters and makes the object. Fails as FindPolicy and CheckParams do.
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, const PolicyParams& given);

}  // namespace weir::core
