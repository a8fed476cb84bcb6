// SPDX-License-Identifier: Apache-2.0
// The parameters of a policy. A policy declares them once, as members of a struct with their defaults, and lists them
// in Fields(). Users give numbers by name (PolicyParams); the table for help and checks, and the typed values, are
// derived.
//
//   struct TurnParams {
//     Duration quantum = milliseconds(2);
//     static constexpr void Fields(auto&& each) {
//       each(ParamInfo{"quantum_ms", "ms of GPU time", 0.1, 1000, "length of a turn"}, &TurnParams::quantum);
//     }
//   };
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/units.h"

namespace weir::core {

/// A parameter as users see it.
struct PolicyParam {
  std::string_view name;
  std::string_view unit;
  double preset;
  double min;
  double max;
  std::string_view summary;
  std::span<const std::string_view> choices{};  // names of the values 0, 1, …; empty: any number in the range
};

/// Values by parameter name. Values that come from CheckParams are complete and in range.
using PolicyParams = std::map<std::string, double, std::less<>>;

/// A parameter as its policy declares it.
struct ParamInfo {
  std::string_view name;  // the name of a duration ends in its unit, _ms or _s
  std::string_view unit;  // in words
  double min = 0, max = 0;
  std::string_view summary;
  std::span<const std::string_view> choices{};
};

/// Nanoseconds of the unit in which the name of a duration ends.
constexpr double ParamUnitNs(std::string_view name) {
  const bool ms = name.size() > 3 && name.substr(name.size() - 3) == "_ms";
  return ms ? 1e6 : 1e9;
}

/// The number by which users give `value`.
template <typename Value>
constexpr double ParamNumber([[maybe_unused]] std::string_view name, Value value) {
  if constexpr (std::is_same_v<Value, Duration>)
    return static_cast<double>(value.count()) / ParamUnitNs(name);
  else
    return static_cast<double>(value);
}

/// The typed value of a number that users gave.
template <typename Value>
Value ParamValue([[maybe_unused]] std::string_view name, double number) {
  if constexpr (std::is_same_v<Value, Duration>)
    return Duration{std::llround(number * ParamUnitNs(name))};
  else if constexpr (std::is_same_v<Value, bool>)
    return number >= 0.5;
  else
    return static_cast<Value>(number);
}

/// The table of the parameters for help and checks, as Fields() lists them.
template <typename Params>
constexpr auto MakeParamTable() {
  constexpr std::size_t kCount = [] {
    std::size_t count = 0;
    Params::Fields([&count](const ParamInfo&, auto) { ++count; });
    return count;
  }();
  std::array<PolicyParam, kCount> table{};
  std::size_t i = 0;
  Params::Fields([&](const ParamInfo& info, auto member) {
    table[i++] = {info.name,    info.unit,   ParamNumber(info.name, Params{}.*member), info.min, info.max,
                  info.summary, info.choices};
  });
  return table;
}
template <typename Params>
inline constexpr auto kParamTable = MakeParamTable<Params>();

/// The typed values. A parameter that is not given has its default.
template <typename Params>
Params ParamsFrom(const PolicyParams& checked) {
  Params params;
  Params::Fields([&](const ParamInfo& info, auto member) {
    using Value = std::remove_reference_t<decltype(params.*member)>;
    if (const auto found = checked.find(info.name); found != checked.end())
      params.*member = ParamValue<Value>(info.name, found->second);
  });
  return params;
}

}  // namespace weir::core
