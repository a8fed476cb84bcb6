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

/// If less than the whole need is useful too, the need is halved at most this often.
inline constexpr int kNeedHalvings = 4;

/// Chooses up to `most` nodes for one task, with one question each: first the nodes with room for the whole need, the
/// fewest threads first, then those with room for half of it, and so on. `take` asks a node to confirm; a node that
/// refuses is backed off. `choice` must know the nodes and have no open question.
std::vector<NodeId> ChooseKnown(NodeChoice& choice, Instant now, std::span<const KnownNode> known, Bytes need,
                                std::size_t most, const std::function<bool(NodeId)>& take);

}  // namespace weir::core
