// SPDX-License-Identifier: Apache-2.0
// A program here whose OpenCL device is another machine's (docs/network.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir::cli {

struct DistantNode {
  std::string node;     // HOST:PORT, or the path of a virtual machine's port to its host
  std::string token;    // file
  bool plain = false;   // no token: nothing is proven
  std::string vgpu;     // with `plain`
  std::string program;  // for people
  [[nodiscard]] bool by_port() const { return node.find('/') != std::string::npos; }
};

/// Starts a relay for this process and what it becomes, and waits until the node has let it in. Returns what its
/// programs need in their environment. The error is the node's or the relay's, in words.
Result<std::vector<std::pair<std::string, std::string>>> StartRelay(const DistantNode& distant,
                                                                    const std::string& run_dir);

}  // namespace weir::cli
