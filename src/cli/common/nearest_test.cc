// SPDX-License-Identifier: Apache-2.0
#include "cli/common/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::cli {
namespace {

const std::vector<std::string> kNames{"serve", "run", "top", "vgpu", "policy", "--weight", "--cap"};

TEST(NearestName, FindsOneWithAFewOtherLetters) {
  EXPECT_EQ(NearestName("vpgu", kNames), "vgpu") << "exchanged";
  EXPECT_EQ(NearestName("polcy", kNames), "policy") << "missing";
  EXPECT_EQ(NearestName("servee", kNames), "serve") << "added";
  EXPECT_EQ(NearestName("--weigth", kNames), "--weight");
  EXPECT_EQ(NearestName("rum", kNames), "run") << "wrong";
}

TEST(NearestName, FindsNoneForAnotherWord) {
  for (const std::string word : {"", "x", "frobnicate", "--fps", "dashboard"})
    EXPECT_EQ(NearestName(word, kNames), "") << word;
  EXPECT_EQ(NearestName(std::string(100'000, 'v'), kNames), "");
  EXPECT_EQ(NearestName("run", {}), "");
}

TEST(Suggestion, IsTheEndOfASentence) {
  EXPECT_EQ(Suggestion("vpgu", kNames), "; did you mean 'vgpu'?");
  EXPECT_EQ(Suggestion("frobnicate", kNames), "");
}

}  // namespace
}  // namespace weir::cli
