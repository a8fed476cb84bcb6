// SPDX-License-Identifier: Apache-2.0
// A vGPU's settings as given on the command line. Only the given ones are sent; the daemon checks the values.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace weir::cli {

struct GivenSettings {
  std::optional<std::string> device;                 // only when a vGPU is created
  nlohmann::json values = nlohmann::json::object();  // by the names of engine/vgpu_settings.h
  bool best_effort = false;                          // only when a vGPU is created

  [[nodiscard]] bool Any() const { return device || !values.empty() || best_effort; }
};

/// Adds the settings that were given to `body`, a request of the control API.
void AddSettings(const GivenSettings& settings, nlohmann::json& body);

/// The options of all settings, as "--weight --cap ...".
std::string SettingFlags();

/// Prints 60 rather than 60.0, so that traces show a number as the user wrote it.
nlohmann::json JsonNumber(double number);

}  // namespace weir::cli
