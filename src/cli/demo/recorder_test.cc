// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/recorder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

using nlohmann::json;

TEST(FramesFromJson, TakesTheLatencyBetweenTheReturnsOfTwoPresents) {
  const auto dump = FramesFromJson(json::parse(
      R"({"next": 7, "lost": 2, "columns": ["pid", "begin_ns", "new", "end_ns", "gpu_ns"],
          "frames": [[42, 1000, 1800, 2500, 300], [42, 2500, 2600, 2700, 50]]})"));
  ASSERT_TRUE(dump) << dump.error().message;
  EXPECT_EQ(dump->next, 7);
  EXPECT_EQ(dump->lost, 2);
  ASSERT_EQ(dump->frames.size(), 2U);
  EXPECT_EQ(dump->frames[0].latency_ns, 1500);
  EXPECT_EQ(dump->frames[0].gpu_ns, 300);
  EXPECT_EQ(dump->frames[1].end_ns, 2700);
}

TEST(FramesFromJson, RefusesRowsThatItCannotRead) {
  for (const char* rows : {"3", "[[1, 2]]", R"([[1, 2, "3"]])", "[7]"}) {
    json reply{{"columns", {"begin_ns", "end_ns", "gpu_ns"}}, {"frames", json::parse(rows)}};
    EXPECT_EQ(FramesFromJson(reply).error().code, Errc::kProtocol) << rows;
  }
  for (const char* text : {"{}", R"({"frames": []})", R"({"frames": [], "columns": ["begin_ns", "end_ns"]})"})
    EXPECT_EQ(FramesFromJson(json::parse(text)).error().code, Errc::kProtocol) << text;
}

}  // namespace
}  // namespace weir::cli
