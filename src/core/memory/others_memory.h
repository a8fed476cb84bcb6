// SPDX-License-Identifier: Apache-2.0
// How much of a device's memory is not ours to share out, since other programs hold it: processes that no vGPU has, and
// what drivers keep for themselves. Seen from two sides that do not agree at every moment: the device says what is in
// use, and executors say what of it is theirs. Pure. Page: docs/memory.md, "What others hold"
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"

namespace weir::core {

class OthersMemory {
 public:
  /// An allocation of ours is seen by the two sides at different times: only what all of so many looks show is others'.
  static constexpr std::size_t kLooks = 3;
  /// What others have given back is ours again when it has been free for so long: each change moves slots about.
  static constexpr Duration kFreeFor = seconds(5);

  /// A look: `used` of the device, by whoever, and `ours` of that. True: slots() is another now.
  bool See(Instant now, Bytes used, Bytes ours);
  /// Whole slots of kSlotBytes that others hold a part of.
  [[nodiscard]] std::uint32_t slots() const { return slots_; }

 private:
  std::array<std::uint64_t, kLooks> seen_{};  // the last ones, in bytes
  std::size_t looks_ = 0;
  std::uint32_t slots_ = 0;
  Instant full_at_{};             // others held as many last
  std::uint32_t most_since_ = 0;  // slots, since then
};

}  // namespace weir::core
