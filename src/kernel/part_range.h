// SPDX-License-Identifier: Apache-2.0
// The range of work-groups that a part of a launch runs.
#pragma once

#include <cstdint>

namespace weir::kernel {

/// Work-groups from `first` up to but excluding `end` of one dimension, and all groups of the other dimensions.
struct PartRange {
  unsigned dimension = 0;
  std::uint64_t first = 0, end = 0;
  bool operator==(const PartRange&) const = default;
  [[nodiscard]] constexpr std::uint64_t count() const { return end - first; }
};

}  // namespace weir::kernel
