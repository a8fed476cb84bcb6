// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 (choice.h) among nodes that publish their room and threads continuously, so that each question is
// answered immediately. Pure. Page: docs/partition.md
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/partition/choice.h"

namespace weir::core {

struct KnownNode {
  NodeId id{};
  std::optional<Bytes> room{};  // unset: unknown, assumed to be sufficient
  std::uint64_t threads = 0;
};

/// A node with room for less than the whole need is useful, too: the need is halved up to this many times.
inline constexpr int kNeedHalvings = 4;

/// Chooses up to `most` nodes for one task, with one question for each. Nodes with room for the whole need come first,
/// then those with room for half of it, and so on; among equal ones the node with the fewest threads. `take` asks a
/// node to confirm, and a node that refuses is backed off. `choice` must know the nodes and have no open question.
std::vector<NodeId> ChooseKnown(NodeChoice& choice, Instant now, std::span<const KnownNode> known, Bytes need,
                                std::size_t most, const std::function<bool(NodeId)>& take);

}  // namespace weir::core
