// SPDX-License-Identifier: Apache-2.0
// Settings of a vGPU as JSON, in one table: the control API and the saved node read and write the same names.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/events.h"

namespace weir::daemon {

nlohmann::ordered_json SettingsToJson(const engine::VgpuSettings& settings);

/// Takes the fields of `body` that are settings into `settings` and erases them from `body`. kInvalidArgument names the
/// field that has the wrong type or is out of the range of its type; ranges proper are the engine's.
Status TakeSettings(nlohmann::json& body, engine::VgpuSettings& settings);

/// Takes a field of another kind; absent fields leave `value` alone.
Status TakeString(nlohmann::json& body, const char* name, std::string& value);
Status TakeBool(nlohmann::json& body, const char* name, bool& value);
Status TakeUnsigned(nlohmann::json& body, const char* name, std::uint64_t& value);
Status TakeNumber(nlohmann::json& body, const char* name, double& value);
/// Numbers by their names.
Status TakeNumbers(nlohmann::json& body, const char* name, core::PolicyParams& values);
/// Numbers, or names of choices, of the parameters of `policy`.
Status TakeParams(nlohmann::json& body, const char* name, const std::string& policy, core::PolicyParams& values);
Status TakeParams(nlohmann::json& body, const char* name, const core::PolicyEntry& entry, core::PolicyParams& values);

/// kInvalidArgument when `body` still has fields.
Status ExpectNothingLeft(const nlohmann::json& body);

/// Parses an object. kInvalidArgument for anything else; an empty text is an empty object.
Result<nlohmann::json> ParseObject(std::string_view text);

}  // namespace weir::daemon
