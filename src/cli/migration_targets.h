// SPDX-License-Identifier: Apache-2.0
// The possible targets of a move among the nodes that a cluster's manager knows. Page: docs/migration.md
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "proto/relay_control.h"

namespace weir::cli {

/// The value "auto" of --to.
inline constexpr const char* kAnyNode = "auto";

struct MigrationOptions {
  std::string to = {};         // a node's name, or kAnyNode
  std::string token = {};      // a file, or a folder with NODE.token for each
  bool plain = false;          // no token
  std::string vgpu = {};       // with `plain`; empty: the vGPU that the node offers
  Bytes room{};                // with kAnyNode: the free memory that a node must have
  std::string away_from = {};  // HOST:PORT of the program's present node, which kAnyNode excludes
};
struct MigrationTarget {
  std::string node = {};
  proto::MoveRequest request = {};
};

/// From the reply to GET /v1/nodes: the node with that name. With kAnyNode: all nodes that offer parts, have room and
/// can be accessed, in the order of Algorithm 1. kNotFound says what is missing.
Result<std::vector<MigrationTarget>> TargetsIn(const nlohmann::json& nodes, const MigrationOptions& options);

}  // namespace weir::cli
