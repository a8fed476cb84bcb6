// SPDX-License-Identifier: Apache-2.0
// Which slots of a device's memory each vGPU holds. Several vGPUs may hold the same slot: the running one uses it, and
// the contents of the others wait in host memory (slot_turns.h). Implements gBalloon, Algorithm 1, and the future work
// of its section 6. Pure. Page: docs/memory.md
//
//   contiguous   one range for each vGPU, which grows and shrinks at its two ends  gBalloon, section 3.3
//   scattered    any slots: takes the least shared, gives up the most shared       gBalloon, section 6 (future work)
//
//   slot      0    1    2    3    4
//   vGPU 1   [_________]                  Fig. 4. vGPU 4 requests two more: left 2 (overlap 2), left 1 and right 1 (3),
//   vGPU 2             [_________]        right 2 (3). Result: L = 2, R = 0.
//   vGPU 3                  [_________]
//   vGPU 4             [____]
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"

namespace weir::core {

enum class SlotLayout : std::uint8_t { kContiguous, kScattered };

/// Slots `first` … `first + count - 1`, counted from 0.
struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend constexpr bool operator==(const SlotRange&, const SlotRange&) = default;
};

/// Slots taken or given up: Algorithm 1's L and R. Both are 0 for scattered slots.
struct SlotChange {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::uint64_t overlap = 0;  // number of other holders, summed over these slots: Algorithm 1's `count`
  friend constexpr bool operator==(const SlotChange&, const SlotChange&) = default;
};

/// The slots of one device and their holders. Errors of its functions: kInvalidArgument for zero slots and for more
/// slots than exist or are held, kNotFound for an unknown vGPU, kAlreadyExists for one that was added before. After an
/// error nothing has changed.
class SlotArena {
 public:
  /// `slots`: M. `slot`: bytes of one slot, not 0.
  explicit SlotArena(std::uint32_t slots, SlotLayout layout = SlotLayout::kContiguous, Bytes slot = kSlotBytes);

  /// Chooses the first place of `count` slots (0: none yet) by least overlap. Ties go to the place where growth up to
  /// `reach` slots meets the fewest slots that others may grow to, then to the lowest slot. (The paper gives no rule.)
  Status Add(VgpuId id, std::uint32_t count, std::uint32_t reach = 0);
  /// Uses the given place, for tests. Ranges are ascending and disjoint; at most one range in the contiguous layout.
  Status AddAt(VgpuId id, std::span<const SlotRange> place, std::uint32_t reach = 0);
  Status Remove(VgpuId id);

  /// Algorithm 1, *Expansion*: takes `slots` (Q) more, split between left and right by least overlap; ties go to the
  /// fewest on the left. A vGPU without slots gets a first place. Scattered: takes the least shared slots; ties go to
  /// the lowest. O(Q), scattered O(M).
  Result<SlotChange> Expand(VgpuId id, std::uint32_t slots);
  /// Algorithm 1, *Reduction*: gives up `slots` (Q) from the ends with the most overlap; ties go to the fewest from the
  /// left. Scattered: gives up the most shared slots; ties go to the highest. A vGPU may give up all of its slots.
  Result<SlotChange> Reduce(VgpuId id, std::uint32_t slots);

  /// Scattered only: replaces slot `from` of the vGPU by slot `to`.
  void Move(VgpuId id, std::uint32_t from, std::uint32_t to);

  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(sharers_.size()); }
  [[nodiscard]] SlotLayout layout() const { return layout_; }
  [[nodiscard]] Bytes slot_bytes() const { return slot_; }
  /// Number of slots that `bytes` need, rounded up and limited to the type's maximum.
  [[nodiscard]] std::uint32_t SlotsFor(Bytes bytes) const;

  [[nodiscard]] bool Knows(VgpuId id) const { return Find(id) != nullptr; }
  [[nodiscard]] std::uint32_t CountOf(VgpuId id) const;  // 0 for an unknown vGPU
  [[nodiscard]] bool Holds(VgpuId id, std::uint32_t slot) const;
  [[nodiscard]] std::vector<SlotRange> RangesOf(VgpuId id) const;
  template <typename Each>  // calls Each(slot) in ascending order
  void ForEachSlot(VgpuId id, Each each) const;

  /// The slot map: how many vGPUs hold each slot.
  [[nodiscard]] std::span<const std::uint32_t> sharers() const { return sharers_; }
  [[nodiscard]] std::vector<VgpuId> HoldersOf(std::uint32_t slot) const;
  [[nodiscard]] std::vector<VgpuId> ids() const;
  /// Sum of sharers over a range: the overlap of a vGPU that would take it. Slots outside of the device count 0.
  [[nodiscard]] std::uint64_t CostOf(SlotRange range) const;
  /// Number of other holders, summed over the slots of the vGPU.
  [[nodiscard]] std::uint64_t OverlapOf(VgpuId id) const;
  /// Number of its slots that other vGPUs hold too.
  [[nodiscard]] std::uint32_t SharedOf(VgpuId id) const;
  [[nodiscard]] bool SharesAny(VgpuId id) const;
  /// Sum of the slots that each vGPU holds; a shared slot counts once for each holder.
  [[nodiscard]] std::uint64_t total() const { return total_; }
  /// Increases whenever a vGPU's set of slots changes.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

 private:
  struct Holder {
    VgpuId id;
    std::uint32_t reach = 0;  // number of slots up to which it may grow
    std::uint32_t first = 0;  // contiguous
    std::uint32_t count = 0;
    std::vector<std::uint64_t> bits{};  // scattered
    [[nodiscard]] bool Has(std::uint32_t slot) const { return (bits[slot / 64] >> (slot % 64) & 1) != 0; }
  };

  [[nodiscard]] const Holder* Find(VgpuId id) const;
  [[nodiscard]] Holder* Find(VgpuId id);
  [[nodiscard]] Result<Holder*> Changing(VgpuId id, std::uint32_t slots, const char* verb);
  Status CanAdd(VgpuId id, std::uint32_t count) const;
  Holder& Insert(VgpuId id, std::uint32_t reach);
  /// The first slot of a new range of `count` slots (Add).
  [[nodiscard]] std::uint32_t Placed(std::uint32_t count, std::uint32_t reach) const;
  [[nodiscard]] std::vector<std::uint32_t> Claims() const;
  SlotChange ExpandRange(Holder& holder, std::uint32_t slots);
  SlotChange ReduceRange(Holder& holder, std::uint32_t slots);
  SlotChange TakeLeastShared(Holder& holder, std::uint32_t slots);
  SlotChange GiveMostShared(Holder& holder, std::uint32_t slots);
  void Take(SlotRange range);
  void Give(SlotRange range);

  const SlotLayout layout_;
  const Bytes slot_;
  std::vector<std::uint32_t> sharers_;
  std::vector<Holder> holders_;  // ascending by id
  std::uint64_t total_ = 0;
  std::uint64_t changes_ = 0;
};

template <typename Each>
void SlotArena::ForEachSlot(VgpuId id, Each each) const {
  const Holder* holder = Find(id);
  if (holder == nullptr) return;
  if (layout_ == SlotLayout::kContiguous) {
    for (std::uint32_t i = 0; i < holder->count; ++i) each(holder->first + i);
    return;
  }
  for (std::size_t word = 0; word < holder->bits.size(); ++word)
    for (std::uint64_t rest = holder->bits[word]; rest != 0; rest &= rest - 1)
      each(static_cast<std::uint32_t>(word * 64) + static_cast<std::uint32_t>(std::countr_zero(rest)));
}

}  // namespace weir::core
