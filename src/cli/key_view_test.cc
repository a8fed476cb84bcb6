// SPDX-License-Identifier: Apache-2.0
#include "cli/key_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "engine/node_engine.h"

namespace weir::cli {
namespace {

TEST(KeyView, ANodesNameIsDerivedFromItsHostName) {
  EXPECT_EQ(NodeNameFrom("gpu-1.lab"), "gpu-1.lab");
  EXPECT_EQ(NodeNameFrom("-.gpu 1/2"), "gpu-1-2");
  EXPECT_EQ(NodeNameFrom(""), "node");
  EXPECT_EQ(NodeNameFrom("..."), "node");
  for (const char* host : {"gpu-1.lab", "-.gpu 1/2", "", "\x1b[2J", "bücher"})
    EXPECT_TRUE(net::CheckKeyName(NodeNameFrom(host))) << host;
  EXPECT_TRUE(net::CheckKeyName(NodeNameFrom(std::string(300, 'x'))));
}

TEST(KeyView, TokensAcceptTheEnginesVgpuNames) {
  for (const std::string& name : std::vector<std::string>{"a", "A.b_c-9", "", ".a", "-a", "a b", "a/b", "ü",
                                                          std::string(63, 'x'), std::string(64, 'x')})
    EXPECT_EQ(net::CheckKeyName(name).has_value(), engine::CheckName(name).has_value()) << name;
}

TEST(KeyView, ShowsTheStatesOfTokens) {
  const std::vector<net::TokenRecord> tokens{{"4000000000000001", "game", 2'000'000'000, false},
                                             {"4000000000000002", "desk", 1'000, false},
                                             {"4000000000000003", "away", 2'000'000'000, true}};
  const std::string text = TokensText(tokens, "/k", 1'000'000, false);
  EXPECT_NE(text.find("game  2033-05-18 03:33:20 UTC  good"), std::string::npos) << text;
  EXPECT_NE(text.find("desk  1970-01-01 00:16:40 UTC  expired"), std::string::npos) << text;
  EXPECT_NE(text.find("away  2033-05-18 03:33:20 UTC  revoked"), std::string::npos) << text;
  const nlohmann::json list = TokensToJson(tokens, 1'000'000);
  EXPECT_EQ(list[0]["state"], "good");
  EXPECT_EQ(list[1]["expires_unix_s"], 1'000);
  EXPECT_EQ(list[2]["state"], "revoked");
  EXPECT_EQ(list[0]["vgpu"], "game");
  const nlohmann::json lab = TokensToJson({{"5c0e1f6a90b3d247", "tenant:lab", 2'000'000'000, false}}, 0)[0];
  EXPECT_EQ(lab["role"], "tenant");
  EXPECT_EQ(lab["name"], "lab");
  EXPECT_FALSE(lab.contains("vgpu"));
  EXPECT_NE(TokensText({}, "/k", 0, false).find("weir keys token"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
