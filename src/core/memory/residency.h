// SPDX-License-Identifier: Apache-2.0
// Whose contents are in each slot of a device, and what has to be copied before the next vGPU runs. gVirt copies
// translation entries at a switch (gBalloon, section 2.1); here contents are copied, and only where slots overlap. The
// copies for the one after it go on while it runs (predictive copy: gBalloon, section 3.3). Pure: says which, copies
// nothing. Page: docs/memory.md
//
//   a vGPU's slot   unused ──wrote──▶ resident, dirty ──evict: copied out──▶ in host memory
//                                        ▲                                      │
//                                       wrote                                restore: copied in
//                                        │                                      ▼
//                                     resident, clean ◀─────────────────────────┘
//                                        └── evict: nothing to copy ──▶ in host memory
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/memory/slot_arena.h"

namespace weir::core {

/// One vGPU's contents of one slot.
struct SlotCopy {
  std::uint32_t slot = 0;
  VgpuId vgpu{};
  bool copied = false;  // evicted: it is dirty. Restored: there are contents to restore
  friend constexpr bool operator==(const SlotCopy&, const SlotCopy&) = default;
};

/// In the order of the lists; of each, slots ascending.
struct ResidencyPlan {
  VgpuId runs{};
  VgpuId next{};
  std::vector<SlotCopy> evict{}, restore{};              // before it runs
  std::vector<SlotCopy> evict_ahead{}, restore_ahead{};  // while it runs, for `next`: none of its slots is among them
  std::uint32_t copies_out = 0;                          // slots, of both lists of each kind
  std::uint32_t copies_in = 0;
};

class Residency {
 public:
  explicit Residency(std::uint32_t slots);

  /// What brings all of `runs`' slots onto the device, and ahead those of `next` (none: nothing ahead). A vGPU that
  /// isn't in the arena has no slots. Nothing changes until Done.
  [[nodiscard]] ResidencyPlan Plan(const SlotArena& arena, VgpuId runs, VgpuId next = {}) const;
  /// `plan` has been carried out, up to its copies ahead or (`ahead`) with them. It is the last one made, and neither
  /// Follow nor Drop came in between; kInvalidArgument if it doesn't fit what is resident, and nothing has changed.
  Status Done(const ResidencyPlan& plan, bool ahead = true);

  /// `id` has written to the slots: they are dirty. kInvalidArgument if one of them isn't resident; nothing has
  /// changed.
  Status Wrote(VgpuId id, SlotRange range);

  /// After vGPUs came to hold other slots: what is to be evicted, since whose contents they are no longer holds the
  /// slots, and is taken to be evicted from then on. Contents in slots that are given up belong to no slot any more;
  /// whoever keeps the buffers has them in host memory.
  std::vector<SlotCopy> Follow(const SlotArena& arena);
  /// It is gone, and its contents with it.
  void Drop(VgpuId id);

  /// Whose contents are in it; none: nobody's.
  [[nodiscard]] VgpuId OwnerOf(std::uint32_t slot) const { return slot < owners_.size() ? owners_[slot] : VgpuId{}; }
  [[nodiscard]] bool Dirty(std::uint32_t slot) const { return slot < dirty_.size() && dirty_[slot] != 0; }
  /// It has contents of that slot, and they are in host memory only.
  [[nodiscard]] bool InHost(VgpuId id, std::uint32_t slot) const;
  [[nodiscard]] std::span<const VgpuId> owners() const { return owners_; }
  [[nodiscard]] std::uint32_t ResidentOf(VgpuId id) const;

 private:
  struct Filled {
    VgpuId id;
    std::vector<std::uint64_t> bits;  // slots that it has contents of
  };
  [[nodiscard]] const Filled* Find(VgpuId id) const;
  Filled& Enter(VgpuId id);
  [[nodiscard]] bool HasContents(const Filled* filled, std::uint32_t slot) const {
    return filled != nullptr && (filled->bits[slot / 64] >> (slot % 64) & 1) != 0;
  }
  Status Fits(std::span<const SlotCopy> evict, std::span<const SlotCopy> restore, VgpuId restored) const;
  void Apply(std::span<const SlotCopy> evict, std::span<const SlotCopy> restore);

  std::vector<VgpuId> owners_;       // by slot
  std::vector<std::uint8_t> dirty_;  // by slot: host memory doesn't have the owner's contents
  std::vector<Filled> filled_;       // by id, ascending
};

}  // namespace weir::core
