// SPDX-License-Identifier: Apache-2.0
#include "cli/common/settings.h"

#include <cmath>

#include "engine/vgpu_settings.h"

namespace weir::cli {

nlohmann::json JsonNumber(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return static_cast<std::int64_t>(number);
  return number;
}

void AddSettings(const GivenSettings& settings, nlohmann::json& body) {
  if (settings.device) body["device"] = *settings.device;
  if (settings.best_effort) body["best_effort"] = true;
  body.update(settings.values);
}

std::string SettingFlags() {
  std::string out;
  engine::VgpuSettings::Fields([&](const engine::SettingInfo& info, auto) {
    if (info.flag != nullptr) out += (out.empty() ? "" : " ") + std::string(info.flag);
  });
  return out;
}

}  // namespace weir::cli
