// SPDX-License-Identifier: Apache-2.0
#include "cli/common/settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

TEST(VgpuSettings, SendsOnlyGivenSettings) {
  nlohmann::json body = nlohmann::json::object();
  AddSettings({}, body);
  EXPECT_EQ(body.dump(), "{}");
  EXPECT_FALSE(VgpuSettings{}.Any());
}

TEST(VgpuSettings, UsesTheNamesOfTheControlApi) {
  VgpuSettings settings;
  settings.device = "embedded";
  settings.weight = 50;
  settings.cap = 0.5;
  settings.fps = 60.0;
  settings.latency_ms = 20.0;
  settings.memory = MemoryRange{MiB(64), MiB(1024)};
  settings.partition = "never";
  settings.best_effort = true;
  nlohmann::json body{{"name", "a"}};
  AddSettings(settings, body);
  EXPECT_EQ(body, nlohmann::json::parse(R"({"name": "a", "device": "embedded", "weight": 50, "cap": 0.5, "fps": 60.0,
    "best_effort": true, "latency_ms": 20.0, "memory_min_bytes": 67108864, "memory_max_bytes": 1073741824, "partition": "never"})"));
  EXPECT_TRUE(settings.Any());
}

}  // namespace
}  // namespace weir::cli
