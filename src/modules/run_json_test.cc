// SPDX-License-Identifier: Apache-2.0
#include "modules/run_json.h"

#include <gtest/gtest.h>

namespace weir::modules {
namespace {

TEST(RunJson, DeeplyNestedBodiesAreRefused) {
  constexpr std::size_t kDepth = 1'000'000;  // a request may have many more bytes
  const std::string nested = std::string(kDepth, '[') + std::string(kDepth, ']');
  const auto request = RunRequestFrom(R"({"device":)" + nested + "}");
  ASSERT_FALSE(request.has_value());
  EXPECT_NE(request.error().message.find("deeper"), std::string::npos) << request.error().message;
}

TEST(RunJson, MillisecondsAreTheSameAfterTheyWereWritten) {
  for (std::uint64_t ms = 1; ms <= 20'000; ++ms) ASSERT_EQ(WholeMilliseconds(static_cast<double>(ms) / 1e3), ms);
  EXPECT_EQ(WholeMilliseconds(static_cast<double>(core::kAloneMaxMs) / 1e3), core::kAloneMaxMs);
  EXPECT_EQ(WholeMilliseconds(0.0011), 2U) << "rounded up";
  EXPECT_EQ(WholeMilliseconds(1e-300), 1U);
  EXPECT_EQ(WholeMilliseconds(0), 0U);
}

}  // namespace
}  // namespace weir::modules
