// SPDX-License-Identifier: Apache-2.0
// A device's memory of fixed limits, in slots of 64 MiB, and the link over which buffers are copied into it, first come
// first served.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/units.h"

namespace weir::sim {

/// Slots needed for so many bytes, rounded up.
constexpr std::uint32_t SlotsFor(Bytes bytes) {
  return static_cast<std::uint32_t>((bytes.count + kSlotBytes.count - 1) / kSlotBytes.count);
}

/// A tenant's buffers. `resident` is at most the footprint and at most the limit.
struct Holding {
  std::uint32_t footprint = 0;  // slots that each of its frames reads
  std::uint32_t limit = 0;      // 0: none
  std::uint32_t resident = 0;
};

class MemoryModel {
 public:
  /// `size` 0: unlimited. The part of `size` that is less than a slot is not used.
  MemoryModel(Bytes size, double link_bytes_per_s)
      : slots_(size.count == 0 ? std::numeric_limits<std::uint32_t>::max()
                               : static_cast<std::uint32_t>(size.count / kSlotBytes.count)),
        bytes_per_s_(link_bytes_per_s) {}

  struct Touched {
    Instant there;             // when everything that the frame reads has been copied to the device
    std::uint32_t copied = 0;  // slots
  };
  /// A frame reads the whole footprint. Slots that are not resident are copied. As many of them as the limit and the
  /// device's size permit stay resident; the rest passes through a buffer of the driver, which is not counted, and is
  /// copied again for the next frame.
  Touched Touch(Instant now, Holding& holding) {
    const std::uint32_t missing = holding.footprint - holding.resident;
    if (missing == 0) return {now, 0};
    const std::uint32_t most = holding.limit == 0 ? holding.footprint : std::min(holding.footprint, holding.limit);
    const std::uint32_t stays = std::min(most - std::min(most, holding.resident), slots_ - used_);
    holding.resident += stays;
    used_ += stays;
    link_free_at_ = std::max(link_free_at_, now) +
                    FromSeconds(static_cast<double>(missing) * static_cast<double>(kSlotBytes.count) / bytes_per_s_);
    return {link_free_at_, missing};
  }
  /// Slots over a new limit are evicted at once and without a copy: host memory has the same contents.
  void Limit(Holding& holding, std::uint32_t slots) {
    holding.limit = slots;
    if (slots != 0 && holding.resident > slots) Evict(holding, holding.resident - slots);
  }
  void Release(Holding& holding) { Evict(holding, holding.resident); }
  /// The program's buffers now have this size.
  void Resize(Holding& holding, std::uint32_t footprint) {
    holding.footprint = footprint;
    if (holding.resident > footprint) Evict(holding, holding.resident - footprint);
  }

  [[nodiscard]] std::uint32_t used() const { return used_; }

 private:
  void Evict(Holding& holding, std::uint32_t slots) {
    holding.resident -= slots;
    used_ -= slots;
  }

  std::uint32_t slots_;
  double bytes_per_s_;
  std::uint32_t used_ = 0;
  Instant link_free_at_{};
};

}  // namespace weir::sim
