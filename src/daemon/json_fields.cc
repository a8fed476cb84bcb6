// SPDX-License-Identifier: Apache-2.0
#include "daemon/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "http/json_api.h"

namespace weir::daemon {
namespace {

using engine::VgpuSettings;
using nlohmann::json;

Error WrongType(const char* name, const char* wanted, const json& value) {
  return Fail(Errc::kInvalidArgument, fmt::format("field '{}': expected {}, got {}", name, wanted, value.type_name()));
}

Status TakeSetting(json& body, const engine::SettingInfo& info, auto& value) {
  using Value = std::remove_reference_t<decltype(value)>;
  const auto found = body.find(info.name);
  if (found == body.end()) return Ok();
  if constexpr (engine::kIsChoice<Value>) {
    if (!found->is_string()) return WrongType(info.name, "a string", *found);
    WEIR_TRY_STATUS(engine::SetChoice(value, found->template get_ref<const std::string&>()));
  } else {
    if (!found->is_number()) return WrongType(info.name, "a number", *found);
    const double number = found->template get<double>();
    if (!std::isfinite(number) || number < 0 || number > engine::kSettingNumberMax<Value>)
      return Fail(Errc::kInvalidArgument, fmt::format("{} = {} is out of range", info.name, number));
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

Status TakeString(json& body, const char* name, std::string& value) {
  const auto found = body.find(name);
  if (found == body.end()) return Ok();
  if (!found->is_string()) return WrongType(name, "a string", *found);
  value = found->get<std::string>();
  body.erase(found);
  return Ok();
}

Status TakeBool(json& body, const char* name, bool& value) {
  const auto found = body.find(name);
  if (found == body.end()) return Ok();
  if (!found->is_boolean()) return WrongType(name, "true or false", *found);
  value = found->get<bool>();
  body.erase(found);
  return Ok();
}

Status TakeUnsigned(json& body, const char* name, std::uint64_t& value) {
  const auto found = body.find(name);
  if (found == body.end()) return Ok();
  if (!found->is_number_unsigned()) return WrongType(name, "a whole number, not negative", *found);
  value = found->get<std::uint64_t>();
  body.erase(found);
  return Ok();
}

Status TakeNumber(json& body, const char* name, double& value) {
  const auto found = body.find(name);
  if (found == body.end()) return Ok();
  if (!found->is_number()) return WrongType(name, "a number", *found);
  value = found->get<double>();
  body.erase(found);
  return Ok();
}

Status TakeNumbers(json& body, const char* name, core::PolicyParams& values) {
  const auto found = body.find(name);
  if (found == body.end()) return Ok();
  if (!found->is_object()) return WrongType(name, "an object of numbers", *found);
  for (const auto& [key, value] : found->items()) {
    if (!value.is_number()) return WrongType(key.c_str(), "a number", value);
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
  if (!found->is_object()) return WrongType(name, "an object of numbers and choices", *found);
  for (const auto& [key, value] : found->items()) {
    if (value.is_string()) {
      WEIR_TRY(values[key], core::ValueOfChoice(entry, key, value.get<std::string>()));
      continue;
    }
    if (!value.is_number()) return WrongType(key.c_str(), "a number", value);
    values[key] = value.get<double>();
  }
  body.erase(found);
  return Ok();
}

Status ExpectNothingLeft(const json& body) {
  if (body.empty()) return Ok();
  return Fail(Errc::kInvalidArgument, fmt::format("unknown field '{}'", body.begin().key()));
}

Result<json> ParseObject(std::string_view text) {
  if (text.empty()) return json::object();
  if (http::NestsTooDeep(text))
    return Fail(Errc::kInvalidArgument,
                fmt::format("the request's body nests deeper than {} levels", http::kJsonDepthMax));
  json parsed = http::ParseJson(text);
  if (parsed.is_discarded()) return Fail(Errc::kInvalidArgument, "the request's body is not JSON");
  if (!parsed.is_object())
    return Fail(Errc::kInvalidArgument, fmt::format("expected a JSON object, got {}", parsed.type_name()));
  return parsed;
}

}  // namespace weir::daemon
