// SPDX-License-Identifier: Apache-2.0
#include "cli/common/settings.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

TEST(GivenSettings, SendsOnlyGivenSettings) {
  nlohmann::json body = nlohmann::json::object();
  AddSettings({}, body);
  EXPECT_EQ(body.dump(), "{}");
  EXPECT_FALSE(GivenSettings{}.Any());
}

TEST(GivenSettings, AreAddedToTheRequest) {
  GivenSettings settings;
  settings.device = "embedded";
  settings.values = {{"weight", 50}, {"partition", "never"}};
  settings.best_effort = true;
  nlohmann::json body{{"name", "a"}};
  AddSettings(settings, body);
  EXPECT_EQ(body, nlohmann::json::parse(R"({"name": "a", "device": "embedded", "weight": 50, "best_effort": true,
    "partition": "never"})"));
  EXPECT_TRUE(settings.Any());
}

TEST(GivenSettings, HaveOptionsOfTheirOwn) {
  EXPECT_EQ(SettingFlags(), "--weight --cap --fps --tasks --latency-ms --memory --partition");
}

}  // namespace
}  // namespace weir::cli
