// SPDX-License-Identifier: Apache-2.0
// Divides long kernels into pieces, so that a device that cannot be preempted can still be shared: the gate is passed
// between pieces. Pure. A piece is a launch of some of the work-groups with a global offset. get_global_id is correct
// in a piece, but other queries of a work-item's position are not. Therefore only sources without such queries are
// divided, and only if work-items of different pieces do not interact.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::opencl {

/// False if the text names a built-in whose result differs in a piece, an atomic or printf, or pastes tokens, which
/// could hide such a name. Comments and strings count too: a false negative only loses a division.
bool MayBeSliced(std::string_view source);

struct Launch {
  unsigned dimensions = 1;
  std::uint64_t offset[3] = {}, global[3] = {1, 1, 1};
  bool has_local = false;
  std::uint64_t local[3] = {1, 1, 1};
};

/// Divides a launch from its beginning to its end, between work-groups: along the slowest dimension that has `pieces`
/// of them, otherwise along the longest.
class Slicer {
 public:
  /// `pieces`: approximate number of pieces. The launch stays whole if it is below 2 or the launch cannot be divided.
  Slicer(const Launch& launch, std::uint64_t pieces);

  [[nodiscard]] bool done() const { return done_; }
  /// Returns the next piece, of about `items` work-items and at least one group. It includes the rest if less than half
  /// as much would remain. Must not be called when done.
  Launch Next(std::uint64_t items);

 private:
  const Launch whole_;
  bool cut_ = false, done_ = false;
  unsigned along_ = 0;
  std::uint64_t unit_ = 1, items_per_unit_ = 1;
  std::uint64_t begin_ = 0;  // beginning of the rest along that dimension
};

}  // namespace weir::opencl
