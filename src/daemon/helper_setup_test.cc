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

}  // namespace
}  // namespace weir::daemon
