// SPDX-License-Identifier: Apache-2.0
// A vGPU's settings on the command line. Only the given ones are sent; the daemon checks the values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/common/text_units.h"

namespace weir::cli {

struct VgpuSettings {
  std::optional<std::string> device;  // only when it is created
  std::optional<std::int64_t> weight;
  std::optional<double> cap;
  std::optional<double> fps, tasks_per_s;
  std::optional<double> latency_ms;
  std::optional<MemoryRange> memory;
  std::optional<std::string> partition;
  bool best_effort = false;  // only when it is created

  [[nodiscard]] bool Any() const {
    return device || weight || cap || fps || tasks_per_s || latency_ms || memory || partition || best_effort;
  }
};

/// Adds the settings that were given to `body`, a request of the control API.
void AddSettings(const VgpuSettings& settings, nlohmann::json& body);

/// Prints 60 rather than 60.0, so that traces show a number as the user wrote it.
nlohmann::json JsonNumber(double number);

}  // namespace weir::cli
