// SPDX-License-Identifier: Apache-2.0
// A task that is cut among here and several nodes: the groups of each, so that all end at about the same time. Private
// to plan.cc; page: docs/partition.md
#pragma once

#include <span>
#include <vector>

#include "core/partition/cut_model.h"

namespace weir::core::partition {

/// Ends of the parts: [0, ends[0]) here, then one for each of `peers`, in their order; a part may be empty, but not the
/// one here. Empty: there is no such cut that fits everywhere. `model` has been cut into pieces for here.
///
/// What a node takes is a line through one group and all that fit, so that what all have done together by a time t is a
/// sum of lines: the first t by which they have done everything is found by halving. Then the parts are made to fit.
std::vector<std::uint64_t> SharedEnds(const CutModel& model, std::span<const PeerView> peers);

/// The first `kept` here, the others in equal parts on `peers` nodes; at least one group everywhere where there are so
/// many.
std::vector<std::uint64_t> EqualEnds(const CutModel& model, std::uint64_t kept, std::size_t peers);

/// Whether every part there does.
bool FitsThere(const CutModel& model, const std::vector<std::uint64_t>& ends, std::span<const PeerView> peers);

}  // namespace weir::core::partition
