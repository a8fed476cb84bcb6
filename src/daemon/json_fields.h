// SPDX-License-Identifier: Apache-2.0
// The settings of a vGPU as JSON, and other fields of requests. The control API and the saved node use the same names
// (engine/vgpu_settings.h).
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/events.h"

namespace weir::daemon {

nlohmann::ordered_json SettingsToJson(const engine::VgpuSettings& settings);

/// Moves the fields of `body` that are settings into `settings`. kInvalidArgument names a field that has the wrong type
/// or does not fit its type. The engine checks the ranges of settings.
Status TakeSettings(nlohmann::json& body, engine::VgpuSettings& settings);

/// These move one field of the given type out of `body`; an absent field leaves `value` unchanged.
Status TakeString(nlohmann::json& body, const char* name, std::string& value);
Status TakeBool(nlohmann::json& body, const char* name, bool& value);
Status TakeUnsigned(nlohmann::json& body, const char* name, std::uint64_t& value);
Status TakeNumber(nlohmann::json& body, const char* name, double& value);
/// An object of named numbers.
Status TakeNumbers(nlohmann::json& body, const char* name, core::PolicyParams& values);
/// An object of the parameters of `policy`; a value is a number or the name of a choice.
Status TakeParams(nlohmann::json& body, const char* name, const std::string& policy, core::PolicyParams& values);
Status TakeParams(nlohmann::json& body, const char* name, const core::PolicyEntry& entry, core::PolicyParams& values);

/// kInvalidArgument if `body` still has fields, which are then unknown ones.
Status ExpectNothingLeft(const nlohmann::json& body);

/// Parses an object; an empty text is an empty object. kInvalidArgument for anything else.
Result<nlohmann::json> ParseObject(std::string_view text);

}  // namespace weir::daemon
