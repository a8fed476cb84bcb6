// SPDX-License-Identifier: Apache-2.0
#include "cli/common/frame_rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

using nlohmann::json;

TEST(FrameRows, ColumnsAreFoundByTheirNames) {
  const auto rows = FrameRowsFromJson(json::parse(R"({
      "next": 7, "lost": 2,
      "columns": ["later", "end_ns", "gpu_ns", "pid", "begin_ns", "submit_ns", "present_ns", "predicted_ns"],
      "frames": [["x", 2500, 300, 42, 1000, 1900, 1800, 650], [null, 2700, 50, 42, 2500, 2600, 2600, 0]]})"));
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->next, 7);
  EXPECT_EQ(rows->lost, 2);
  ASSERT_EQ(rows->rows.size(), 2U);
  const FrameRow& first = rows->rows[0];
  EXPECT_EQ(first.pid, 42);
  EXPECT_EQ(first.begin_ns, 1000);
  EXPECT_EQ(first.present_ns, 1800);
  EXPECT_EQ(first.submit_ns, 1900);
  EXPECT_EQ(first.end_ns, 2500);
  EXPECT_EQ(first.gpu_ns, 300);
  EXPECT_EQ(first.predicted_ns, 650);
  EXPECT_EQ(first.pace_ns, 0) << "a column that is missing";
}

TEST(FrameRows, WithoutASubmitColumnPresentsAreSubmittedAtOnce) {
  const auto rows = FrameRowsFromJson(
      json::parse(R"({"columns": ["pid", "begin_ns", "present_ns", "end_ns"], "frames": [[1, 10, 20, 30]]})"));
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->rows[0].submit_ns, 20);
}

TEST(FrameRows, WhatCannotBeReadIsRefused) {
  const std::string columns = R"("columns": ["pid", "begin_ns", "present_ns", "end_ns"])";
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"frames": []})"), "{" + columns + R"(, "frames": 3})",
        "{" + columns + R"(, "frames": [7]})", "{" + columns + R"(, "frames": [[1, 2, 3]]})",
        "{" + columns + R"(, "frames": [[1, 2, "3", 4]]})", "{" + columns + R"(, "frames": [[1, 3, 2, 4]]})",
        std::string(R"({"columns": ["pid", "begin_ns", "end_ns"], "frames": []})")})
    EXPECT_EQ(FrameRowsFromJson(json::parse(text)).error().code, Errc::kProtocol) << text;
}

}  // namespace
}  // namespace weir::cli
