// SPDX-License-Identifier: Apache-2.0
// The command with which a relay moves its program. Relays themselves: tests/e2e.
#include "cli/remote_node.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

using Words = std::vector<std::string>;

Words CommandOf(const RemoteNode& remote) { return MoveCommandOf(remote, "/bin/weir", "/run/w", 42); }

TEST(MoveCommand, IsEmptyWhenTheProgramStays) {
  EXPECT_EQ(CommandOf({.node = "a:1", .token = "t", .plain = false, .vgpu = "", .program = "job"}), Words{});
}

TEST(MoveCommand, EqualsTheManualCommand) {
  RemoteNode remote{.node = "a:1", .token = "t", .plain = false, .vgpu = "", .program = "job"};
  remote.move = {.to = "auto", .token = "tokens", .room = Bytes{1 << 20}, .managers = "m:1", .manager_token = "c"};
  EXPECT_EQ(CommandOf(remote),
            (Words{"/bin/weir", "--run-dir", "/run/w", "migrate", "42", "--if-asked", "--to", "auto", "--token",
                   "tokens", "--room", "1048576", "--manager", "m:1", "--manager-token", "c"}));
}

TEST(MoveCommand, OmitsTheTokenWhenTheProgramHasNone) {
  RemoteNode remote{.node = "a:1", .token = "", .plain = true, .vgpu = "game", .program = "job"};
  remote.move.to = "b:1";
  EXPECT_EQ(CommandOf(remote), (Words{"/bin/weir", "--run-dir", "/run/w", "migrate", "42", "--if-asked", "--to", "b:1",
                                      "--plain", "--vgpu", "game"}));
  remote.move.to = "auto";
  EXPECT_EQ(CommandOf(remote),
            (Words{"/bin/weir", "--run-dir", "/run/w", "migrate", "42", "--if-asked", "--to", "auto", "--plain"}))
      << "the vGPU that is offered";
}

}  // namespace
}  // namespace weir::cli
