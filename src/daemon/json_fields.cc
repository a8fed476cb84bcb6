// SPDX-License-Identifier: Apache-2.0
#include "daemon/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace weir::daemon {
namespace {

using engine::VgpuSettings;
using nlohmann::json;

Status TakeSetting(json& body, const engine::SettingInfo& info, auto& value) {
  using Value = std::remove_reference_t<decltype(value)>;
  const auto found = body.find(info.name);
  if (found == body.end()) return Ok();
  if constexpr (engine::kIsChoice<Value>) {
    if (!found->is_string()) return http::WrongField(info.name, "a string", *found);
    WEIR_TRY_STATUS(engine::SetChoice(value, found->template get_ref<const std::string&>()));
  } else {
    if (!found->is_number()) return http::WrongField(info.name, "a number", *found);
    const double number = found->template get<double>();
    // The range is checked with the other settings; numbers that the type cannot hold, here.
    if (!std::isfinite(number) || number < 0 || number > engine::kSettingNumberMax<Value>)
      return engine::CheckRange(info, number);
    engine::SetSettingNumber(value, number);
  }
  body.erase(found);
  return Ok();
}

}  // namespace

nlohmann::ordered_json SettingsToJson(const VgpuSettings& settings) {
  nlohmann::ordered_json out;
  VgpuSettings::Fields([&](const engine::SettingInfo& info, auto member) {
    const auto value = settings.*member;
    if constexpr (engine::kIsChoice<std::remove_cvref_t<decltype(value)>>) {
      out[info.name] = core::NameOf(value);
    } else if (const double number = engine::SettingNumber(value); number == std::floor(number)) {
      out[info.name] = static_cast<std::int64_t>(number);
    } else {
      out[info.name] = number;
    }
  });
  return out;
}

Status TakeSettings(json& body, VgpuSettings& settings) {
  Status all = Ok();
  VgpuSettings::Fields([&](const engine::SettingInfo& info, auto member) {
    if (all) all = TakeSetting(body, info, settings.*member);
  });
  return all;
}

Status TakeNumbers(json& body, const char* name, core::PolicyParams& values) {
  const auto found = body.find(name);
  if (found == body.end()) return Ok();
  if (!found->is_object()) return http::WrongField(name, "an object of numbers", *found);
  for (const auto& [key, value] : found->items()) {
    if (!value.is_number()) return http::WrongField(key.c_str(), "a number", value);
    values[key] = value.get<double>();
  }
  body.erase(found);
  return Ok();
}

Status TakeParams(json& body, const char* name, const std::string& policy, core::PolicyParams& values) {
  if (!body.contains(name)) return Ok();
  WEIR_TRY(const core::PolicyEntry* entry, core::FindPolicy(policy));
  return TakeParams(body, name, *entry, values);
}

Status TakeParams(json& body, const char* name, const core::PolicyEntry& entry, core::PolicyParams& values) {
  const auto found = body.find(name);
  if (found == body.end()) return Ok();
  if (!found->is_object()) return http::WrongField(name, "an object of numbers and choices", *found);
  for (const auto& [key, value] : found->items()) {
    if (value.is_string()) {
      WEIR_TRY(values[key], core::ValueOfChoice(entry, key, value.get<std::string>()));
      continue;
    }
    if (!value.is_number()) return http::WrongField(key.c_str(), "a number", value);
    values[key] = value.get<double>();
  }
  body.erase(found);
  return Ok();
}

}  // namespace weir::daemon
