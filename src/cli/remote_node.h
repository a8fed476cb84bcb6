// SPDX-License-Identifier: Apache-2.0
// Runs a program on this machine whose OpenCL device is on another one (docs/network.md).
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "cli/common/tenant.h"

namespace weir::cli {

/// The target for a drain request, in the syntax of 'weir migrate' (docs/migration.md).
struct MoveFlags {
  std::string to = {};     // HOST:PORT, a node's name, or auto; empty: the program stays
  std::string token = {};  // file, or folder with NODE.token for each
  Bytes room{};
  std::string managers = {}, manager_token = {};
  [[nodiscard]] bool given() const {
    return !to.empty() || !token.empty() || room.count > 0 || !managers.empty() || !manager_token.empty();
  }
};

struct RemoteNode {
  std::string node;     // HOST:PORT, or the path of a virtual machine's port to its host
  std::string token;    // file
  bool plain = false;   // no token: unauthenticated
  std::string vgpu;     // with `plain`
  std::string program;  // name for messages
  MoveFlags move = {};
  [[nodiscard]] bool by_port() const { return node.find('/') != std::string::npos; }
};

/// The command line with which the relay of process `pid` moves its program; empty: the program stays. `weir`: this
/// executable.
std::vector<std::string> MoveCommandOf(const RemoteNode& remote, const std::string& weir, const std::string& run_dir,
                                       pid_t pid);

/// Starts a relay for this process and the program that it becomes, and waits until the node has accepted it. Returns
/// the environment that the program needs. The error comes from the node or the relay.
Result<Environment> StartRelay(const RemoteNode& remote, const std::string& run_dir);

}  // namespace weir::cli
