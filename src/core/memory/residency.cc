// SPDX-License-Identifier: Apache-2.0
#include "core/memory/residency.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::core {

Residency::Residency(std::uint32_t slots) : owners_(slots), dirty_(slots, 0) {}

const Residency::Filled* Residency::Find(VgpuId id) const {
  const auto found = std::ranges::lower_bound(filled_, id, {}, &Filled::id);
  return found != filled_.end() && found->id == id ? &*found : nullptr;
}

Residency::Filled& Residency::Enter(VgpuId id) {
  auto at = std::ranges::lower_bound(filled_, id, {}, &Filled::id);
  if (at == filled_.end() || at->id != id)
    at = filled_.insert(at, Filled{.id = id, .bits = std::vector<std::uint64_t>((owners_.size() + 63) / 64, 0)});
  return *at;
}

ResidencyPlan Residency::Plan(const SlotArena& arena, VgpuId runs, VgpuId next) const {
  WEIR_CHECK(arena.slots() == owners_.size());
  ResidencyPlan plan{.runs = runs, .next = next == runs ? VgpuId{} : next};
  const auto bring = [&](VgpuId id, std::uint32_t slot, const Filled* filled, std::vector<SlotCopy>& evict,
                         std::vector<SlotCopy>& restore) {
    if (owners_[slot] == id) return;
    if (owners_[slot]) {
      evict.push_back({slot, owners_[slot], dirty_[slot] != 0});
      plan.copies_out += dirty_[slot];
    }
    const bool contents = HasContents(filled, slot);
    restore.push_back({slot, id, contents});
    plan.copies_in += contents ? 1 : 0;
  };
  const Filled* filled = Find(runs);
  arena.ForEachSlot(runs, [&](std::uint32_t slot) { bring(runs, slot, filled, plan.evict, plan.restore); });
  if (!plan.next) return plan;
  filled = Find(plan.next);
  arena.ForEachSlot(plan.next, [&](std::uint32_t slot) {
    if (!arena.Holds(runs, slot)) bring(plan.next, slot, filled, plan.evict_ahead, plan.restore_ahead);
  });
  return plan;
}

Status Residency::Fits(std::span<const SlotCopy> evict, std::span<const SlotCopy> restore, VgpuId restored) const {
  for (const SlotCopy& copy : evict)
    if (!copy.vgpu || OwnerOf(copy.slot) != copy.vgpu)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("slot {} can't be evicted: vGPU {} is there, and not {}; plan anew", copy.slot,
                              OwnerOf(copy.slot).value, copy.vgpu.value));
  auto evicted = evict.begin();  // each of them makes room for one that is restored, in the same order
  for (const SlotCopy& copy : restore) {
    const bool made_room = evicted != evict.end() && evicted->slot == copy.slot;
    if (made_room) ++evicted;
    if (copy.slot >= owners_.size() || copy.vgpu != restored || (OwnerOf(copy.slot) && !made_room))
      return Fail(Errc::kInvalidArgument, fmt::format("slot {} can't be restored: vGPU {} is there; plan anew",
                                                      copy.slot, OwnerOf(copy.slot).value));
  }
  return Ok();
}

void Residency::Apply(std::span<const SlotCopy> evict, std::span<const SlotCopy> restore) {
  for (const SlotCopy& copy : evict) {
    owners_[copy.slot] = {};
    dirty_[copy.slot] = 0;
  }
  for (const SlotCopy& copy : restore) owners_[copy.slot] = copy.vgpu;
}

Status Residency::Done(const ResidencyPlan& plan, bool ahead) {
  WEIR_TRY_STATUS(Fits(plan.evict, plan.restore, plan.runs));
  if (ahead) WEIR_TRY_STATUS(Fits(plan.evict_ahead, plan.restore_ahead, plan.next));
  Apply(plan.evict, plan.restore);
  if (ahead) Apply(plan.evict_ahead, plan.restore_ahead);
  return Ok();
}

Status Residency::Wrote(VgpuId id, SlotRange range) {
  for (std::uint64_t slot = range.first; slot < std::uint64_t{range.first} + range.count; ++slot)
    if (slot >= owners_.size() || !id || owners_[slot] != id)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("vGPU {} can't have written to slot {}: it is not resident there", id.value, slot));
  Filled& filled = Enter(id);
  for (std::uint32_t slot = range.first; slot < range.first + range.count; ++slot) {
    dirty_[slot] = 1;
    filled.bits[slot / 64] |= std::uint64_t{1} << (slot % 64);
  }
  return Ok();
}

std::vector<SlotCopy> Residency::Follow(const SlotArena& arena) {
  WEIR_CHECK(arena.slots() == owners_.size());
  std::vector<SlotCopy> evict;
  for (std::uint32_t slot = 0; slot < owners_.size(); ++slot)
    if (owners_[slot] && !arena.Holds(owners_[slot], slot)) evict.push_back({slot, owners_[slot], dirty_[slot] != 0});
  Apply(evict, {});
  std::vector<std::uint64_t> held;
  for (Filled& filled : filled_) {
    held.assign(filled.bits.size(), 0);
    arena.ForEachSlot(filled.id, [&held](std::uint32_t slot) { held[slot / 64] |= std::uint64_t{1} << (slot % 64); });
    for (std::size_t word = 0; word < held.size(); ++word) filled.bits[word] &= held[word];
  }
  return evict;
}

void Residency::Drop(VgpuId id) {
  for (std::uint32_t slot = 0; slot < owners_.size(); ++slot) {
    if (owners_[slot] != id) continue;
    owners_[slot] = {};
    dirty_[slot] = 0;
  }
  std::erase_if(filled_, [id](const Filled& filled) { return filled.id == id; });
}

bool Residency::InHost(VgpuId id, std::uint32_t slot) const {
  return slot < owners_.size() && owners_[slot] != id && HasContents(Find(id), slot);
}

std::uint32_t Residency::ResidentOf(VgpuId id) const {
  return id ? static_cast<std::uint32_t>(std::ranges::count(owners_, id)) : 0;
}

}  // namespace weir::core
