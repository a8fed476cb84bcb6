// SPDX-License-Identifier: Apache-2.0
#include "cli/common/settings.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace weir::cli {

nlohmann::json JsonNumber(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return static_cast<std::int64_t>(number);
  return number;
}

void AddSettings(const VgpuSettings& settings, nlohmann::json& body) {
  if (settings.device) body["device"] = *settings.device;
  if (settings.weight) body["weight"] = *settings.weight;
  if (settings.cap) body["cap"] = JsonNumber(*settings.cap);
  if (settings.fps) body["fps"] = JsonNumber(*settings.fps);
  if (settings.tasks_per_s) body["tasks_per_s"] = JsonNumber(*settings.tasks_per_s);
  if (settings.latency_ms) body["latency_ms"] = JsonNumber(*settings.latency_ms);
  if (settings.best_effort) body["best_effort"] = true;
  if (settings.memory) {
    body["memory_min_bytes"] = settings.memory->min.count;
    body["memory_max_bytes"] = settings.memory->max.count;
  }
  if (settings.partition) body["partition"] = *settings.partition;
}

}  // namespace weir::cli
