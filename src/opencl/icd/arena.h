// SPDX-License-Identifier: Apache-2.0
// Allocates ranges of the shared arena. Best fit, so that large ranges stay whole; adjacent free ranges are merged. All
// operations take O(log n) for n free ranges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "proto/opencl_messages.h"

namespace weir::opencl::icd {

class ArenaRanges {
 public:
  ArenaRanges() = default;
  /// The `bytes` at `begin`, less what is no multiple of kArenaAlignment at both ends.
  explicit ArenaRanges(std::uint64_t bytes, std::uint64_t begin = 0);

  /// Returns the offset of a free range of at least `bytes`, a multiple of kArenaAlignment. Nullopt: there is none.
  std::optional<std::uint64_t> Take(std::uint64_t bytes);
  /// Frees a range that Take(bytes) returned.
  void GiveBack(std::uint64_t offset, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }
  [[nodiscard]] std::size_t free_ranges() const { return by_offset_.size(); }
  /// The size that a range of `bytes` occupies; 0: overflow.
  static constexpr std::uint64_t Rounded(std::uint64_t bytes) {
    if (bytes > UINT64_MAX - proto::cl::kArenaAlignment) return 0;
    const std::uint64_t at_least = bytes == 0 ? 1 : bytes;
    return (at_least + proto::cl::kArenaAlignment - 1) / proto::cl::kArenaAlignment * proto::cl::kArenaAlignment;
  }

 private:
  using ByOffset = std::map<std::uint64_t, std::uint64_t>;
  void Insert(std::uint64_t offset, std::uint64_t bytes);
  void Erase(ByOffset::iterator range);

  ByOffset by_offset_;                                         // free: offset, bytes
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // free: bytes, offset
  std::uint64_t free_bytes_ = 0;
};

}  // namespace weir::opencl::icd
