// SPDX-License-Identifier: Apache-2.0
// Where a program may be moved, of the nodes that a cluster's manager knows by name. Page: docs/migration.md
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "proto/relay_control.h"

namespace weir::cli {

/// --to auto.
inline constexpr const char* kAnyNode = "auto";

struct MigrationWish {
  std::string to = {};         // a node's name, or kAnyNode
  std::string token = {};      // a file, or a folder with NODE.token for each
  bool plain = false;          // no token
  std::string vgpu = {};       // with `plain`; empty: the one that is offered
  Bytes room{};                // that a node has to have free, with kAnyNode
  std::string away_from = {};  // HOST:PORT where the program is now, which kAnyNode is not
};
struct MigrationTarget {
  std::string node = {};
  proto::MoveRequest request = {};
};

/// Of the reply to GET /v1/nodes: the node of that name, or with kAnyNode all that offer parts, have room and can be
/// entered, in the order of Algorithm 1. kNotFound says what is missing.
Result<std::vector<MigrationTarget>> TargetsIn(const nlohmann::json& nodes, const MigrationWish& wish);

}  // namespace weir::cli
