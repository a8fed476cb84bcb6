// SPDX-License-Identifier: Apache-2.0
// The settings of a vGPU as JSON, and other fields of requests. The control API and the saved node use the same names
// (engine/vgpu_settings.h).
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/events.h"
#include "http/fields.h"

namespace weir::daemon {

nlohmann::ordered_json SettingsToJson(const engine::VgpuSettings& settings);

/// Moves the fields of `body` that are settings into `settings`. kInvalidArgument names a field that has the wrong type
/// or does not fit its type. The engine checks the ranges of settings.
Status TakeSettings(nlohmann::json& body, engine::VgpuSettings& settings);

using http::ExpectNothingLeft;
using http::ParseObject;
using http::TakeBool;
using http::TakeNumber;
using http::TakeString;
using http::TakeUnsigned;

/// Moves the field `name`, an object of named numbers, from `body` into `values`. A missing field is no error.
Status TakeNumbers(nlohmann::json& body, const char* name, core::PolicyParams& values);
/// Likewise for an object of the parameters of `policy`, in which a value is a number or the name of a choice.
Status TakeParams(nlohmann::json& body, const char* name, const std::string& policy, core::PolicyParams& values);
Status TakeParams(nlohmann::json& body, const char* name, const core::PolicyEntry& entry, core::PolicyParams& values);

}  // namespace weir::daemon
