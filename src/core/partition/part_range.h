// SPDX-License-Identifier: Apache-2.0
// Which work-groups of a launch a part of it is.
#pragma once

#include <cstdint>

namespace weir::core {

/// Work-groups `first` up to, not including, `end`, of one dimension; of the others, all.
struct PartRange {
  unsigned dimension = 0;
  std::uint64_t first = 0, end = 0;
  bool operator==(const PartRange&) const = default;
  [[nodiscard]] constexpr std::uint64_t count() const { return end - first; }
};

}  // namespace weir::core
