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

}  // namespace
}  // namespace weir::modules
