// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/policy_table.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/schedule/none.h"
#include "core/schedule/proportional_share.h"
#include "core/schedule/reserve.h"

namespace weir::core {
namespace {

constexpr std::array<PolicyEntry, 3> kPolicies{{
    {"none", "first come, first served; only measures", {}, &MakeNone},
    {"proportional-share", "GPU time by weight, idle time goes to whoever wants it", kProportionalShareParams,
     &MakeProportionalShare},
    {"reserve", "each vGPU has its weight's fraction of the device and no more (VGRIS, eq. 1)", kReserveParams,
     &MakeReserve},
}};

}  // namespace

std::span<const PolicyEntry> PolicyTable() { return kPolicies; }

Result<const PolicyEntry*> FindPolicy(std::string_view name) {
  std::string known;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return &entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Fail(Errc::kNotFound, fmt::format("no policy named '{}'; known: {}", name, known));
}

Result<PolicyParams> CheckParams(const PolicyEntry& entry, const PolicyParams& given) {
  PolicyParams checked;
  for (const PolicyParam& param : entry.params) checked.emplace(param.name, param.preset);
  for (const auto& [name, value] : given) {
    const PolicyParam* known = nullptr;
    for (const PolicyParam& param : entry.params)
      if (param.name == name) known = &param;
    if (known == nullptr)
      return Fail(Errc::kInvalidArgument, fmt::format("policy {} has no parameter '{}'", entry.name, name));
    if (!std::isfinite(value) || value < known->min || value > known->max)
      return Fail(Errc::kInvalidArgument, fmt::format("policy {}: {} = {} is outside {} … {} {}", entry.name, name,
                                                      value, known->min, known->max, known->unit));
    checked[name] = value;
  }
  return checked;
}

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, const PolicyParams& given) {
  WEIR_TRY(const PolicyEntry* entry, FindPolicy(name));
  WEIR_TRY(const PolicyParams params, CheckParams(*entry, given));
  return entry->make(params);
}

}  // namespace weir::core
