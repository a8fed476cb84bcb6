// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 (choice.h) among nodes whose room and threads are known already, because they say so all the time: each
// question is answered on the spot. Pure. Page: docs/partition.md
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/partition/choice.h"

namespace weir::core {

struct KnownNode {
  NodeId id{};
  std::optional<Bytes> room{};  // not known: it is taken to be enough
  std::uint64_t threads = 0;
};

/// Where less than the whole is of use, too, halves of the need are asked for, so often at most.
inline constexpr int kNeedHalvings = 4;

/// Up to `most` nodes for one task, each the choice of a question of its own: with room for the whole need those with
/// the fewest threads first, then those with room for half of it, and so on. `take`: whether the node confirms; one
/// that doesn't is shunned. `choice` must know the nodes, and have no question open.
std::vector<NodeId> ChooseKnown(NodeChoice& choice, Instant now, std::span<const KnownNode> known, Bytes need,
                                std::size_t most, const std::function<bool(NodeId)>& take);

}  // namespace weir::core
