// SPDX-License-Identifier: Apache-2.0
#include "cli/migration_targets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/temp_folder.h"

namespace weir::cli {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

json NodeOffering(const std::string& name, Bytes room, std::uint64_t threads, bool plain = true) {
  return {{"name", name},
          {"parts",
           {{"address", name + ":1"},
            {"vgpu", "parts"},
            {"plain", plain},
            {"room_bytes", room.count},
            {"threads", threads}}}};
}

Names NamesOf(const json& nodes, const MigrationOptions& options) {
  const auto targets = TargetsIn({{"nodes", nodes}}, options);
  Names names;
  if (targets)
    for (const MigrationTarget& target : *targets) names.push_back(target.node);
  return names;
}

TEST(MigrationTargets, PrefersTheNodeWithTheFewestThreads) {
  const json nodes{NodeOffering("a", MiB(100), 7),
                   NodeOffering("b", MiB(100), 5),
                   NodeOffering("c", MiB(10), 0),
                   {{"name", "d"}},
                   NodeOffering("e", MiB(500), 5)};
  const MigrationOptions options{.to = kAnyNode, .plain = true, .room = MiB(64)};
  EXPECT_EQ(NamesOf(nodes, options), (Names{"b", "e", "a"}));
  MigrationOptions away = options;
  away.away_from = "b:1";
  EXPECT_EQ(NamesOf(nodes, away), (Names{"e", "a"}));
  away.room = MiB(1000);
  EXPECT_EQ(TargetsIn({{"nodes", nodes}}, away).error().message, "node e has 500 MiB free, but 1000 MiB are needed");
}

TEST(MigrationTargets, ANodeIsFoundByItsName) {
  const json nodes{NodeOffering("a", {}, 7), NodeOffering("b", {}, 5)};
  const auto targets = TargetsIn({{"nodes", nodes}}, {.to = "a", .plain = true});
  ASSERT_TRUE(targets) << targets.error().message;
  ASSERT_EQ(targets->size(), 1U);
  EXPECT_EQ((*targets)[0].request.node, "a:1");
  EXPECT_EQ((*targets)[0].request.vgpu, "parts");
  EXPECT_EQ(TargetsIn({{"nodes", nodes}}, {.to = "a", .plain = true, .vgpu = "job"})->front().request.vgpu, "job");
  EXPECT_EQ(TargetsIn({{"nodes", nodes}}, {.to = "x", .plain = true}).error().code, Errc::kNotFound);
}

TEST(MigrationTargets, EachNodeNeedsItsTokenOrAllTheSame) {
  const testing::TempFolder folder;
  std::ofstream(folder / "b.token") << "token\n";
  const json nodes{NodeOffering("a", MiB(1), 0, false), NodeOffering("b", MiB(1), 5, false),
                   NodeOffering("c", MiB(1), 0, true)};
  EXPECT_EQ(NamesOf(nodes, {.to = kAnyNode, .token = folder.path()}), Names{"b"});
  EXPECT_EQ(NamesOf(nodes, {.to = kAnyNode, .token = folder / "b.token"}), (Names{"a", "b"}));
  const auto named = TargetsIn({{"nodes", nodes}}, {.to = "b", .token = folder.path()});
  EXPECT_EQ(named->front().request.token, folder / "b.token");
  EXPECT_NE(
      TargetsIn({{"nodes", nodes}}, {.to = "a", .token = folder.path()}).error().message.find("no token for node a"),
      std::string::npos);
  EXPECT_NE(TargetsIn({{"nodes", nodes}}, {.to = "c", .token = folder.path()}).error().message.find("--plain"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::cli
