// SPDX-License-Identifier: Apache-2.0
// Long kernels in pieces, so that a device that can't be interrupted can still be shared: the gate is passed between
// two of them. Pure. A piece is a launch of some of the work-groups at their global offset: get_global_id is right in
// it, and what else a work-item can ask about where it is is not. So only sources that ask nothing else are cut, and
// none whose work-items meet those of other pieces.
#pragma once

#include <cstdint>
#include <string_view>

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

/// Takes a launch apart, from its beginning to its end: between work-groups, along the slowest dimension that has
/// `pieces` of them, else along the one that has most.
class Slicer {
 public:
  /// `pieces`: about how many there are to be. Below 2, and where it can't be cut, the launch is one.
  Slicer(const Launch& launch, std::uint64_t pieces);

  [[nodiscard]] bool done() const { return done_; }
  /// The next piece: of about this many work-items, one group at least. What would leave less than half as much for the
  /// last takes that too. Not when done.
  Launch Next(std::uint64_t items);

 private:
  const Launch whole_;
  bool cut_ = false, done_ = false;
  unsigned along_ = 0;
  std::uint64_t unit_ = 1, items_per_unit_ = 1;
  std::uint64_t begin_ = 0;  // of what is left, along that dimension
};

}  // namespace weir::opencl
