// SPDX-License-Identifier: Apache-2.0
// A program here whose OpenCL device is another machine's (docs/network.md).
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::cli {

/// Where the program goes when its node asks it to leave, as 'weir migrate' takes it (docs/migration.md).
struct MoveFlags {
  std::string to = {};     // HOST:PORT, a node's name, or auto; empty: it stays
  std::string token = {};  // file, or folder with NODE.token for each
  Bytes room{};
  std::string managers = {}, manager_token = {};
  [[nodiscard]] bool given() const {
    return !to.empty() || !token.empty() || room.count > 0 || !managers.empty() || !manager_token.empty();
  }
};

struct DistantNode {
  std::string node;     // HOST:PORT, or the path of a virtual machine's port to its host
  std::string token;    // file
  bool plain = false;   // no token: nothing is proven
  std::string vgpu;     // with `plain`
  std::string program;  // for people
  MoveFlags move = {};
  [[nodiscard]] bool by_port() const { return node.find('/') != std::string::npos; }
};

/// The command line with which the relay of the process `pid` has its program moved; empty: it stays. `weir`: this
/// program.
std::vector<std::string> MoveCommandOf(const DistantNode& distant, const std::string& weir, const std::string& run_dir,
                                       pid_t pid);

/// Starts a relay for this process and what it becomes, and waits until the node has let it in. Returns what its
/// programs need in their environment. The error is the node's or the relay's, in words.
Result<std::vector<std::pair<std::string, std::string>>> StartRelay(const DistantNode& distant,
                                                                    const std::string& run_dir);

}  // namespace weir::cli
