// SPDX-License-Identifier: Apache-2.0
// Long kernels in pieces, so that a device that can't be interrupted can still be shared: the gate is passed between
// two of them. Pure. A piece is a launch of some of the work-groups at their global offset: get_global_id is right in
// it, and what else a work-item can ask about where it is is not. So only sources that ask nothing else are cut, and
// none whose work-items meet those of other pieces.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::opencl {

/// False where the text names a built-in that a piece would answer otherwise, an atomic or printf, or pastes tokens, so
/// that it could without our seeing it. Comments and strings count: being wrong that way costs nothing but a cut.
bool MayBeSliced(std::string_view source);

struct Launch {
  unsigned dimensions = 1;
  std::uint64_t offset[3] = {}, global[3] = {1, 1, 1};
  bool has_local = false;
  std::uint64_t local[3] = {1, 1, 1};
};

/// `parts` pieces at most, in order, that make up the launch: cut between work-groups, along the slowest dimension that
/// has enough of them, else along the one that has most. One piece where it can't be cut.
std::vector<Launch> Slices(const Launch& launch, std::uint64_t parts);

}  // namespace weir::opencl
