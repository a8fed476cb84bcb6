// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/arena.h"

#include <iterator>

namespace weir::opencl::icd {

ArenaRanges::ArenaRanges(std::uint64_t bytes, std::uint64_t begin) {
  constexpr std::uint64_t kAlignment = proto::cl::kArenaAlignment;
  const std::uint64_t first = (begin + kAlignment - 1) / kAlignment * kAlignment;
  const std::uint64_t end = (begin + bytes) / kAlignment * kAlignment;
  if (end > first) Insert(first, end - first);
}

void ArenaRanges::Insert(std::uint64_t offset, std::uint64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void ArenaRanges::Erase(ByOffset::iterator range) {
  free_bytes_ -= range->second;
  by_size_.erase({range->second, range->first});
  by_offset_.erase(range);
}

std::optional<std::uint64_t> ArenaRanges::Take(std::uint64_t bytes) {
  const std::uint64_t wanted = Rounded(bytes);
  if (wanted == 0) return std::nullopt;
  const auto best = by_size_.lower_bound({wanted, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *best;
  Erase(by_offset_.find(offset));
  if (size > wanted) Insert(offset + wanted, size - wanted);
  return offset;
}

void ArenaRanges::GiveBack(std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t begin = offset;
  std::uint64_t end = offset + Rounded(bytes);
  auto after = by_offset_.lower_bound(begin);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      Erase(before);
    }
  }
  if (after != by_offset_.end() && after->first == end) {
    end += after->second;
    Erase(after);
  }
  Insert(begin, end - begin);
}

}  // namespace weir::opencl::icd
