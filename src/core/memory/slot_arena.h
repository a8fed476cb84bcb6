// SPDX-License-Identifier: Apache-2.0
// Which slots of a device's memory each vGPU holds. Slots may be held by several: whoever runs has them, the others'
// contents wait in host memory (slot_turns.h). gBalloon, Algorithm 1, and what its section 6 leaves open. Pure. Page:
// docs/memory.md
//
//   contiguous   one range for each, which grows and shrinks at its two ends        gBalloon, section 3.3
//   scattered    any slots: takes the least shared ones, gives up the most shared   gBalloon, section 6 (future work)
//
//   slot      0    1    2    3    4
//   vGPU 1   [_________]                  Fig. 4. vGPU 4 asks for two more: left 2 (overlap 2), left 1 and right 1 (3),
//   vGPU 2             [_________]        right 2 (3). L = 2, R = 0.
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

/// Slots that are taken or given up: Algorithm 1's L and R; both 0 where slots are scattered.
struct SlotChange {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::uint64_t overlap = 0;  // over these slots, the others that hold each: Algorithm 1's `count`
  friend constexpr bool operator==(const SlotChange&, const SlotChange&) = default;
};

/// Errors: kInvalidArgument for no slots and for more than there are or are held, kNotFound for an unknown vGPU,
/// kAlreadyExists for a known one. Nothing has changed then.
class SlotArena {
 public:
  /// `slots`: M. `slot`: bytes of one, not 0.
  explicit SlotArena(std::uint32_t slots, SlotLayout layout = SlotLayout::kContiguous, Bytes slot = kSlotBytes);

  /// A first place for `count` slots (0: none yet) where they overlap least; of equal ones, where it could grow to
  /// `reach` slots and meet the fewest that others could grow to; of equal ones, the first. (The paper names no rule.)
  Status Add(VgpuId id, std::uint32_t count, std::uint32_t reach = 0);
  /// A place that is given, as tests do: ascending and apart; at most one range where contiguous.
  Status AddAt(VgpuId id, std::span<const SlotRange> place, std::uint32_t reach = 0);
  Status Remove(VgpuId id);

  /// Algorithm 1, *Expansion*: `slots` (Q) more, split between left and right where they overlap least; of equal splits
  /// the one with the fewest to the left. One that holds none gets a first place. Scattered: the least shared ones, of
  /// equal ones the first. Takes O(Q), scattered O(M).
  Result<SlotChange> Expand(VgpuId id, std::uint32_t slots);
  /// Algorithm 1, *Reduction*: `slots` (Q) less, from the ends that overlap most; of equal splits the one with the
  /// fewest from the left. Scattered: the most shared ones, of equal ones the last. All of its slots may go.
  Result<SlotChange> Reduce(VgpuId id, std::uint32_t slots);

  /// Scattered: it holds slot `to` in the place of `from`.
  void Move(VgpuId id, std::uint32_t from, std::uint32_t to);

  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(sharers_.size()); }
  [[nodiscard]] SlotLayout layout() const { return layout_; }
  [[nodiscard]] Bytes slot_bytes() const { return slot_; }
  /// Whole slots that bytes take; the greatest number there is when they are more than that.
  [[nodiscard]] std::uint32_t SlotsFor(Bytes bytes) const;

  [[nodiscard]] bool Knows(VgpuId id) const { return Find(id) != nullptr; }
  [[nodiscard]] std::uint32_t CountOf(VgpuId id) const;  // 0 for an unknown one
  [[nodiscard]] bool Holds(VgpuId id, std::uint32_t slot) const;
  [[nodiscard]] std::vector<SlotRange> RangesOf(VgpuId id) const;
  template <typename Each>  // Each(slot), ascending
  void ForEachSlot(VgpuId id, Each each) const;

  /// The slot map: how many vGPUs hold each slot.
  [[nodiscard]] std::span<const std::uint32_t> sharers() const { return sharers_; }
  [[nodiscard]] std::vector<VgpuId> HoldersOf(std::uint32_t slot) const;
  [[nodiscard]] std::vector<VgpuId> ids() const;
  /// Sum of sharers over a range: what one that doesn't hold it would overlap there. Outside of the device: 0.
  [[nodiscard]] std::uint64_t CostOf(SlotRange range) const;
  /// Over its slots, the others that hold each.
  [[nodiscard]] std::uint64_t OverlapOf(VgpuId id) const;
  /// Of its slots, those that others hold too.
  [[nodiscard]] std::uint32_t SharedOf(VgpuId id) const;
  [[nodiscard]] bool SharesAny(VgpuId id) const;
  /// Slots held, by all together.
  [[nodiscard]] std::uint64_t total() const { return total_; }
  /// Counts up whenever somebody holds other slots.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

 private:
  struct Holder {
    VgpuId id;
    std::uint32_t reach = 0;
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
  std::vector<Holder> holders_;  // by id, ascending
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
