// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/policy_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedule/cap.h"
#include "core/schedule/hybrid.h"
#include "core/schedule/none.h"
#include "core/schedule/proportional_share.h"
#include "core/schedule/reserve.h"
#include "core/schedule/round_robin.h"
#include "core/schedule/sla_aware.h"

namespace weir::core {
namespace {

constexpr RateKeeping kKept{.keeps = true};

constexpr std::array kPolicies{
    MakeEntry<NoneParams, &MakeNone>("none", "first come, first served; only measures"),
    MakeEntry<ProportionalShareParams, &MakeProportionalShare>(
        "proportional-share", "GPU time by weight; idle time goes to any vGPU that wants it"),
    MakeEntry<SlaAwareParams, &MakeSlaAware>("sla-aware", "each program at its promised rate and no faster (VGRIS)",
                                             kKept),
    MakeEntry<HybridParams, &MakeHybrid>(
        "hybrid", "shares while every promise is kept, else sla-aware (VGRIS, Algorithm 1)", kKept),
    MakeEntry<ReserveParams, &MakeReserve>(
        "reserve", "each vGPU has its weight's fraction of the device and no more (VGRIS, eq. 1)"),
    MakeEntry<CapParams, &MakeCap>("cap",
                                   "each vGPU at most its cap of every period, in stages (gOver); debt is carried",
                                   {.keeps = true, .off_at_zero = "ahead_ms"}),
    MakeEntry<CapPaperParams, &MakeCapPaper>("cap-paper",
                                             "gOver's Algorithms 2 and 3 to the letter: each period forgives debt"),
    MakeEntry<RoundRobinParams, &MakeRoundRobin>("round-robin", "vGPUs use the device in equal turns"),
};

std::string Joined(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

std::string KnownText(std::span<const PolicyParam> params) {
  if (params.empty()) return "it has none";
  std::string out = "known: ";
  for (const PolicyParam& param : params) out += (&param == params.data() ? "" : ", ") + std::string(param.name);
  return out;
}

}  // namespace

std::span<const PolicyEntry> PolicyTable() { return kPolicies; }

Result<const PolicyEntry*> FindPolicy(std::string_view name) {
  std::string known;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return &entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Fail(Errc::kNotFound, fmt::format("unknown policy '{}'; known: {}", name, known));
}

Result<PolicyParams> CheckParams(const PolicyEntry& entry, const PolicyParams& given) {
  PolicyParams checked;
  for (const PolicyParam& param : entry.params) checked.emplace(param.name, param.preset);
  for (const auto& [name, value] : given) {
    const PolicyParam* known = nullptr;
    for (const PolicyParam& param : entry.params)
      if (param.name == name) known = &param;
    if (known == nullptr)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("policy {} has no parameter '{}'; {}", entry.name, name, KnownText(entry.params)));
    if (!known->choices.empty() && value != std::floor(value))
      return Fail(Errc::kInvalidArgument,
                  fmt::format("policy {}: {} = {} is not one of: {}", entry.name, name, value, Joined(known->choices)));
    if (!std::isfinite(value) || value < known->min || value > known->max)
      return Fail(Errc::kInvalidArgument, fmt::format("policy {}: {} = {} is outside {} … {} {}", entry.name, name,
                                                      value, known->min, known->max, known->unit));
    checked[name] = value;
  }
  return checked;
}

Result<double> ValueOfChoice(const PolicyEntry& entry, std::string_view param, std::string_view choice) {
  for (const PolicyParam& known : entry.params) {
    if (known.name != param) continue;
    for (std::size_t i = 0; i < known.choices.size(); ++i)
      if (known.choices[i] == choice) return static_cast<double>(i);
    if (known.choices.empty())
      return Fail(Errc::kInvalidArgument,
                  fmt::format("policy {}: {} = '{}' is not a number", entry.name, param, choice));
    return Fail(Errc::kInvalidArgument, fmt::format("policy {}: {} = '{}' is not one of: {}", entry.name, param, choice,
                                                    Joined(known.choices)));
  }
  return Fail(Errc::kInvalidArgument, fmt::format("policy {} has no parameter '{}'", entry.name, param));
}

std::string_view NameOfChoice(std::string_view policy, std::string_view param, double value) {
  for (const PolicyEntry& entry : kPolicies)
    for (const PolicyParam& known : entry.params)
      if (entry.name == policy && known.name == param && value >= 0 &&
          value < static_cast<double>(known.choices.size()))
        return known.choices[static_cast<std::size_t>(value)];
  return {};
}

bool KeepsRates(const PolicyEntry& entry, const PolicyParams& params) {
  if (!entry.rates.keeps || entry.rates.off_at_zero.empty()) return entry.rates.keeps;
  const auto given = params.find(entry.rates.off_at_zero);
  if (given != params.end()) return given->second > 0;
  return std::ranges::any_of(entry.params, [&entry](const PolicyParam& param) {
    return param.name == entry.rates.off_at_zero && param.preset > 0;
  });
}

std::vector<std::string_view> PoliciesThatKeepRates() {
  std::vector<std::string_view> names;
  for (const PolicyEntry& entry : kPolicies)
    if (KeepsRates(entry, {})) names.push_back(entry.name);
  return names;
}

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, const PolicyParams& given) {
  WEIR_TRY(const PolicyEntry* entry, FindPolicy(name));
  WEIR_TRY(const PolicyParams params, CheckParams(*entry, given));
  return entry->make(params);
}

}  // namespace weir::core
