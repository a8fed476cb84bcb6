// SPDX-License-Identifier: Apache-2.0
// Cuts a task between this node and several peers so that all parts end at about the same time. Private to plan.cc;
// page: docs/partition.md
#pragma once

#include <span>
#include <vector>

#include "core/partition/cut_model.h"

namespace weir::core::partition {

/// Ends of the parts: [0, ends[0]) runs locally, followed by one part for each of `peers`, in their order. A remote
/// part may be empty, the local part may not. Empty result: no such cut fits everywhere. `model` has been cut into
/// local pieces.
///
/// The time of a peer is modelled as a line through one group and the most groups that fit. So the groups that all
/// nodes complete by a time t are a sum of lines, and bisection finds the first t by which they complete all groups.
/// Then the parts are reduced until they fit.
std::vector<std::uint64_t> SharedEnds(const CutModel& model, std::span<const PeerView> peers);

/// Ends of the parts with `kept` local groups and equal parts on `peers` nodes; at least one group for each if there
/// are enough.
std::vector<std::uint64_t> EqualEnds(const CutModel& model, std::uint64_t kept, std::size_t peers);

/// Whether every remote part fits its peer.
bool FitsThere(const CutModel& model, const std::vector<std::uint64_t>& ends, std::span<const PeerView> peers);

}  // namespace weir::core::partition
