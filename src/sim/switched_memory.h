// SPDX-License-Identifier: Apache-2.0
// Memory as in gVirt (gBalloon, section 2.1), with which gBalloon is compared. Sizes are fixed, and each vGPU lies in
// one range of slots. When the device switches to another vGPU, a CPU copies the translation entries of those of its
// slots that other vGPUs have used since, whether they are needed or not; the device waits. Buffers that do not fit
// into a vGPU's size are returned and bound again within each frame.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "core/memory/slot_arena.h"

namespace weir::sim {

class SwitchedMemory {
 public:
  /// `entries`: time to copy the entries of one slot. `returned`: time to return and bind again one slot's objects.
  SwitchedMemory(std::uint32_t slots, Duration entries, Duration returned)
      : arena_(slots), last_(slots), entries_(entries), returned_(returned) {}

  void Add(VgpuId id, std::uint32_t size) {
    WEIR_CHECK(arena_.Add(id, std::min(size, arena_.slots()), size).has_value());
  }
  /// How long the device waits before it runs a batch of this vGPU.
  Duration Switch(VgpuId id) {
    std::uint32_t missing = 0;
    arena_.ForEachSlot(id, [&](std::uint32_t slot) {
      missing += last_[slot] == id ? 0 : 1;
      last_[slot] = id;
    });
    // At a slot's first use there is nothing to restore, but the entries are written all the same.
    copied_ += missing;
    copying_ += missing * entries_;
    return missing * entries_;
  }
  /// How long it waits within a frame that reads `wants` slots.
  [[nodiscard]] Duration Returns(VgpuId id, std::uint32_t wants) const {
    const std::uint32_t size = arena_.CountOf(id);
    return wants > size ? (wants - size) * returned_ : Duration{};
  }
  [[nodiscard]] Duration copying() const { return copying_; }
  [[nodiscard]] std::uint64_t copied() const { return copied_; }

 private:
  core::SlotArena arena_;
  std::vector<VgpuId> last_;  // [slot]: the vGPU that used it last
  Duration entries_, returned_;
  Duration copying_{};
  std::uint64_t copied_ = 0;
};

}  // namespace weir::sim
