// SPDX-License-Identifier: Apache-2.0
// Memory as gVirt has it (gBalloon, section 2.1): what gBalloon is compared with. Sizes are fixed, each vGPU lies in
// one range of slots, and when the device turns to another one, a CPU copies the translation entries of those of its
// slots that another one used since, needed or not; the device waits. What doesn't fit its size is returned and bound
// again within each frame.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "core/memory/slot_arena.h"

namespace weir::sim {

class SwitchedMemory {
 public:
  /// `entries`: to copy those of one slot. `returned`: to return and bind one slot's objects.
  SwitchedMemory(std::uint32_t slots, Duration entries, Duration returned)
      : arena_(slots), last_(slots), entries_(entries), returned_(returned) {}

  void Add(VgpuId id, std::uint32_t size) {
    WEIR_CHECK(arena_.Add(id, std::min(size, arena_.slots()), size).has_value());
  }
  /// What the device waits for before a batch of this one.
  Duration Switch(VgpuId id) {
    std::uint32_t missing = 0;
    arena_.ForEachSlot(id, [&](std::uint32_t slot) {
      missing += last_[slot] == id ? 0 : 1;
      last_[slot] = id;
    });
    // The first time there is nothing to restore, but it is written all the same.
    copied_ += missing;
    copying_ += missing * entries_;
    return missing * entries_;
  }
  /// And within a frame that reads `wants` slots.
  [[nodiscard]] Duration Returns(VgpuId id, std::uint32_t wants) const {
    const std::uint32_t size = arena_.CountOf(id);
    return wants > size ? (wants - size) * returned_ : Duration{};
  }
  [[nodiscard]] Duration copying() const { return copying_; }
  [[nodiscard]] std::uint64_t copied() const { return copied_; }

 private:
  core::SlotArena arena_;
  std::vector<VgpuId> last_;  // by slot: who used it last
  Duration entries_, returned_;
  Duration copying_{};
  std::uint64_t copied_ = 0;
};

}  // namespace weir::sim
