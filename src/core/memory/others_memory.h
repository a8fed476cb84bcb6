// SPDX-License-Identifier: Apache-2.0
// How much of a device's memory can't be given to vGPUs because other programs or the drivers hold it. Two sources
// report it, and they do not agree at every moment: the device reports the memory in use, and the executors report
// their part of it. Pure. Page: docs/memory.md, "What others hold"
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"

namespace weir::core {

class OthersMemory {
 public:
  /// The two sources see an allocation of an executor at different times, so the minimum over this many looks is used.
  static constexpr std::size_t kLooks = 3;
  /// Memory that others released is given to vGPUs only after it has been free for this long: each change moves slots.
  static constexpr Duration kFreeFor = seconds(5);

  /// `used`: all bytes of the device that are in use. `ours`: the executors' part. Returns whether slots() changed.
  bool See(Instant now, Bytes used, Bytes ours);
  /// Slots of kSlotBytes of which others hold at least a part.
  [[nodiscard]] std::uint32_t slots() const { return slots_; }

 private:
  std::array<std::uint64_t, kLooks> seen_{};  // the last looks, in bytes
  std::size_t looks_ = 0;
  std::uint32_t slots_ = 0;
  Instant full_at_{};             // when others last held slots_ or more
  std::uint32_t most_since_ = 0;  // highest number of slots since full_at_
};

}  // namespace weir::core
