// SPDX-License-Identifier: Apache-2.0
#include "core/memory/others_memory.h"

#include <algorithm>
#include <limits>

namespace weir::core {

bool OthersMemory::See(Instant now, Bytes used, Bytes ours) {
  seen_[looks_++ % kLooks] = used.count - std::min(used.count, ours.count);
  if (looks_ < kLooks) return false;
  const std::uint64_t bytes = *std::ranges::min_element(seen_);
  const std::uint64_t whole = bytes / kSlotBytes.count + (bytes % kSlotBytes.count != 0 ? 1 : 0);
  const auto held =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(whole, std::numeric_limits<std::uint32_t>::max()));
  if (held >= slots_) {
    full_at_ = now;
    most_since_ = 0;
    const bool more = held > slots_;
    slots_ = held;
    return more;
  }
  most_since_ = std::max(most_since_, held);
  if (now - full_at_ < kFreeFor) return false;
  slots_ = most_since_;
  full_at_ = now;
  most_since_ = 0;
  return true;
}

}  // namespace weir::core
