// SPDX-License-Identifier: Apache-2.0
#include "daemon/json_fields.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "http/json_api.h"

namespace weir::daemon {
namespace {

using engine::VgpuSettings;
using nlohmann::json;

struct SettingField {
  const char* name;
  double max;  // larger values overflow the field's type
  double (*get)(const VgpuSettings&);
  void (*set)(VgpuSettings&, double);
};

constexpr double kBytesMax = 0x1p53;  // the largest integer that a JSON number holds exactly

constexpr std::array kSettingFields{
    SettingField{"weight", 4e9, [](const VgpuSettings& s) -> double { return s.weight; },
                 [](VgpuSettings& s, double v) { s.weight = static_cast<std::uint32_t>(v); }},
    SettingField{"cap", 4000, [](const VgpuSettings& s) { return s.cap.Fraction(); },
                 [](VgpuSettings& s, double v) { s.cap = Share::FromFraction(v); }},
    SettingField{"fps", 1e9, [](const VgpuSettings& s) { return s.fps; }, [](VgpuSettings& s, double v) { s.fps = v; }},
    SettingField{"tasks_per_s", 1e9, [](const VgpuSettings& s) { return s.tasks_per_s; },
                 [](VgpuSettings& s, double v) { s.tasks_per_s = v; }},
    SettingField{"latency_ms", 1e9, [](const VgpuSettings& s) { return MillisecondsOf(s.latency); },
                 // Rounded, so that a latency is unchanged after it was saved and read again.
                 [](VgpuSettings& s, double v) { s.latency = Duration{std::llround(v * 1e6)}; }},
    SettingField{"memory_min_bytes", kBytesMax,
                 [](const VgpuSettings& s) { return static_cast<double>(s.memory_min.count); },
                 [](VgpuSettings& s, double v) { s.memory_min = Bytes{static_cast<std::uint64_t>(v)}; }},
    SettingField{"memory_max_bytes", kBytesMax,
                 [](const VgpuSettings& s) { return static_cast<double>(s.memory_max.count); },
                 [](VgpuSettings& s, double v) { s.memory_max = Bytes{static_cast<std::uint64_t>(v)}; }},
};

Error WrongType(const char* name, const char* wanted, const json& value) {
  return Fail(Errc::kInvalidArgument, fmt::format("field '{}': expected {}, got {}", name, wanted, value.type_name()));
}

constexpr const char* kPartition = "partition";

Status TakePartition(json& body, core::PartitionMode& mode) {
  if (!body.contains(kPartition)) return Ok();
  std::string name;
  WEIR_TRY_STATUS(TakeString(body, kPartition, name));
  const auto named = core::PartitionModeNamed(name);
  if (!named) return Fail(Errc::kInvalidArgument, fmt::format("partition = '{}': give auto, never or always", name));
  mode = *named;
  return Ok();
}

}  // namespace

nlohmann::ordered_json SettingsToJson(const VgpuSettings& settings) {
  nlohmann::ordered_json out;
  for (const SettingField& field : kSettingFields) {
    const double value = field.get(settings);
    if (value == std::floor(value))
      out[field.name] = static_cast<std::int64_t>(value);
    else
      out[field.name] = value;
  }
  out[kPartition] = core::NameOf(settings.partition);
  return out;
}

Status TakeSettings(json& body, VgpuSettings& settings) {
  for (const SettingField& field : kSettingFields) {
    const auto found = body.find(field.name);
    if (found == body.end()) continue;
    if (!found->is_number()) return WrongType(field.name, "a number", *found);
    const double value = found->get<double>();
    if (!std::isfinite(value) || value < 0 || value > field.max)
      return Fail(Errc::kInvalidArgument, fmt::format("{} = {} is out of range", field.name, value));
    field.set(settings, value);
    body.erase(found);
  }
  return TakePartition(body, settings.partition);
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
