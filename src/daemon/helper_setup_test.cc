// SPDX-License-Identifier: Apache-2.0
#include "daemon/helper_setup.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

using Words = std::vector<std::string>;

TEST(HelperSetup, TheDashboardGetsWhatItWasAskedFor) {
  const DashboardSetup setup{.program = "/weir-dashboard", .listen = "127.0.0.1:8080"};
  EXPECT_EQ(ArgvOf(setup, "/run/weir", "/run/weir/c.sock", 7),
            (Words{"/weir-dashboard", "--listen", "127.0.0.1:8080", "--control", "/run/weir/c.sock", "--parent", "7",
                   "--token-file", "/run/weir/dashboard.token"}));
  const DashboardSetup open{
      .program = "/d", .listen = "127.0.0.1:8080", .plain = true, .read_only = true, .quiet = true};
  EXPECT_EQ(ArgvOf(open, "/run/weir", "/c", 7), (Words{"/d", "--listen", "127.0.0.1:8080", "--control", "/c",
                                                       "--parent", "7", "--plain", "--read-only", "--quiet"}));
}

TEST(HelperSetup, AServiceGetsTheFilesThatItsUserMayNotOpen) {
  using How = platform::OfferedFile::How;
  const auto only = [](const ServiceRights& rights) {
    EXPECT_EQ(rights.user, 7U);
    EXPECT_EQ(rights.files.size(), 1U);
    return std::pair(rights.files.at(0).path, rights.files.at(0).how);
  };
  EXPECT_EQ(only(RightsOf(PortalSetup{.program = "p", .listen = "", .keys_dir = "/keys"}, 7)),
            std::pair(std::string("/keys/revoked"), How::kRead));
  EXPECT_TRUE(RightsOf(PortalSetup{}, 7).files.empty()) << "a portal without keys";
  EXPECT_EQ(only(RightsOf(GuestSetup{.program = "p", .path = "/vm", .vgpu = "a"}, 7)),
            std::pair(std::string("/vm"), How::kPort));
  EXPECT_EQ(only(RightsOf(GuestSetup{.program = "p", .path = "/m", .vgpu = "a", .way = GuestSetup::Way::kMemory}, 7)),
            std::pair(std::string("/m"), How::kMake));
  EXPECT_EQ(only(RightsOf(PeerSetup{.program = "p", .node = "n:1", .token = "/t", .vgpu = ""}, 7)),
            std::pair(std::string("/t"), How::kRead));
  EXPECT_TRUE(RightsOf(PeerSetup{.program = "p", .node = "n:1", .token = "", .vgpu = "a"}, 7).files.empty());
}

}  // namespace
}  // namespace weir::daemon
