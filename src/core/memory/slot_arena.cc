// SPDX-License-Identifier: Apache-2.0
#include "core/memory/slot_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace weir::core {

SlotArena::SlotArena(std::uint32_t slots, SlotLayout layout, Bytes slot)
    : layout_(layout), slot_(slot), sharers_(slots, 0) {
  WEIR_CHECK(slot.count > 0);
}

std::uint32_t SlotArena::SlotsFor(Bytes bytes) const {
  const std::uint64_t whole = bytes.count / slot_.count + (bytes.count % slot_.count != 0 ? 1 : 0);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(whole, std::numeric_limits<std::uint32_t>::max()));
}

// -- Members ---------------------------------------------------------------------------------------------------------

const SlotArena::Holder* SlotArena::Find(VgpuId id) const {
  const auto found = std::ranges::lower_bound(holders_, id, {}, &Holder::id);
  return found != holders_.end() && found->id == id ? &*found : nullptr;
}
SlotArena::Holder* SlotArena::Find(VgpuId id) { return const_cast<Holder*>(std::as_const(*this).Find(id)); }

SlotArena::Holder& SlotArena::Insert(VgpuId id, std::uint32_t reach) {
  const auto at = std::ranges::lower_bound(holders_, id, {}, &Holder::id);
  Holder& holder = *holders_.insert(at, Holder{.id = id, .reach = reach});
  if (layout_ == SlotLayout::kScattered) holder.bits.assign((sharers_.size() + 63) / 64, 0);
  return holder;
}

Status SlotArena::CanAdd(VgpuId id, std::uint32_t count) const {
  if (!id) return Fail(Errc::kInvalidArgument, "a vGPU without an id can't hold slots");
  if (Knows(id)) return Fail(Errc::kAlreadyExists, fmt::format("vGPU {} already holds slots of this device", id.value));
  if (count > slots())
    return Fail(Errc::kInvalidArgument,
                fmt::format("{} slots of {} MiB are more than the {} that the device has; ask for less", count,
                            slot_.count >> 20, slots()));
  return Ok();
}

Status SlotArena::Add(VgpuId id, std::uint32_t count, std::uint32_t reach) {
  WEIR_TRY_STATUS(CanAdd(id, count));
  reach = std::clamp(reach, count, slots());
  const std::uint32_t first = layout_ == SlotLayout::kContiguous && count > 0 ? Placed(count, reach) : 0;
  Holder& holder = Insert(id, reach);
  if (layout_ == SlotLayout::kScattered) {
    TakeLeastShared(holder, count);
  } else {
    holder.first = first;
    holder.count = count;
    Take({first, count});
  }
  return Ok();
}

Status SlotArena::AddAt(VgpuId id, std::span<const SlotRange> place, std::uint32_t reach) {
  std::uint64_t count = 0, end = 0;
  bool sound = layout_ == SlotLayout::kScattered || place.size() <= 1;
  for (const SlotRange& range : place) {
    sound = sound && range.count > 0 && range.first >= end;
    end = std::uint64_t{range.first} + range.count;
    sound = sound && end <= slots();
    count += range.count;
  }
  if (!sound)
    return Fail(Errc::kInvalidArgument,
                fmt::format("vGPU {} can't have this place: {} ranges up to slot {} of {}; ranges are ascending, apart "
                            "and within the device, and a single one where slots are contiguous",
                            id.value, place.size(), end, slots()));
  WEIR_TRY_STATUS(CanAdd(id, static_cast<std::uint32_t>(count)));
  Holder& holder = Insert(id, std::clamp(reach, static_cast<std::uint32_t>(count), slots()));
  holder.first = place.empty() ? 0 : place.front().first;
  holder.count = static_cast<std::uint32_t>(count);
  for (const SlotRange& range : place) {
    Take(range);
    if (layout_ == SlotLayout::kScattered)
      for (std::uint32_t slot = range.first; slot < range.first + range.count; ++slot)
        holder.bits[slot / 64] |= std::uint64_t{1} << (slot % 64);
  }
  return Ok();
}

Status SlotArena::Remove(VgpuId id) {
  const Holder* holder = Find(id);
  if (holder == nullptr) return Fail(Errc::kNotFound, fmt::format("vGPU {} holds no slots of this device", id.value));
  for (const SlotRange& range : RangesOf(id)) Give(range);
  holders_.erase(holders_.begin() + (holder - holders_.data()));
  return Ok();
}

void SlotArena::Take(SlotRange range) {
  for (std::uint32_t i = 0; i < range.count; ++i) ++sharers_[range.first + i];
  total_ += range.count;
  ++changes_;
}
void SlotArena::Give(SlotRange range) {
  for (std::uint32_t i = 0; i < range.count; ++i) --sharers_[range.first + i];
  total_ -= range.count;
  ++changes_;
}

// -- A first place ---------------------------------------------------------------------------------------------------

/// For each slot, the number of vGPUs that may come to hold it. A vGPU is expected to grow to the right up to its
/// reach, but to no more than an equal part of the device after one more vGPU has been added. (Without this limit,
/// every vGPU with the whole device as its maximum would claim all of it.)
std::vector<std::uint32_t> SlotArena::Claims() const {
  const std::uint32_t part = slots() / static_cast<std::uint32_t>(holders_.size() + 1);
  std::vector<std::uint32_t> claims(std::size_t{slots()} + 1, 0);
  for (const Holder& holder : holders_) {
    if (holder.count == 0) continue;
    const std::uint32_t claim = std::max(holder.count, std::min(holder.reach, part));
    const std::uint32_t first = std::min(holder.first, slots() - claim);
    ++claims[first];
    --claims[first + claim];  // difference array: unsigned wrap-around is undone by the sum
  }
  std::partial_sum(claims.begin(), claims.end(), claims.begin());
  return claims;
}

std::uint32_t SlotArena::Placed(std::uint32_t count, std::uint32_t reach) const {
  const std::vector<std::uint32_t> claims = Claims();
  const std::uint32_t part = slots() / static_cast<std::uint32_t>(holders_.size() + 1);
  const std::uint32_t claim = std::max(count, std::min(reach, part));
  const auto sum = [](const auto& of, std::uint32_t from, std::uint32_t length) {
    return std::accumulate(of.begin() + from, of.begin() + from + length, std::uint64_t{0});
  };
  std::uint64_t shared = sum(sharers_, 0, count), claimed = sum(claims, 0, claim);
  std::uint64_t least_shared = shared, least_claimed = claimed;
  std::uint32_t best = 0;
  for (std::uint32_t first = 1; first + count <= slots(); ++first) {
    shared += sharers_[first + count - 1];
    shared -= sharers_[first - 1];
    if (first + claim <= slots()) {  // else the claim is cut off at the end of the device, as before
      claimed += claims[first + claim - 1];
      claimed -= claims[first - 1];
    }
    if (shared < least_shared || (shared == least_shared && claimed < least_claimed)) {
      least_shared = shared;
      least_claimed = claimed;
      best = first;
    }
  }
  return best;
}

// -- Algorithm 1 -----------------------------------------------------------------------------------------------------

Result<SlotArena::Holder*> SlotArena::Changing(VgpuId id, std::uint32_t slots, const char* verb) {
  Holder* holder = Find(id);
  if (holder == nullptr) return Fail(Errc::kNotFound, fmt::format("vGPU {} holds no slots of this device", id.value));
  if (slots == 0)
    return Fail(Errc::kInvalidArgument, fmt::format("vGPU {} can't {} no slots; one is the least", id.value, verb));
  return holder;
}

Result<SlotChange> SlotArena::Expand(VgpuId id, std::uint32_t slots) {
  WEIR_TRY(Holder * holder, Changing(id, slots, "take"));
  if (std::uint64_t{holder->count} + slots > this->slots())
    return Fail(Errc::kInvalidArgument,
                fmt::format("vGPU {} holds {} slots and can't have {} more: the device has {}; ask for less", id.value,
                            holder->count, slots, this->slots()));
  return layout_ == SlotLayout::kContiguous ? ExpandRange(*holder, slots) : TakeLeastShared(*holder, slots);
}

Result<SlotChange> SlotArena::Reduce(VgpuId id, std::uint32_t slots) {
  WEIR_TRY(Holder * holder, Changing(id, slots, "give up"));
  if (slots > holder->count)
    return Fail(Errc::kInvalidArgument,
                fmt::format("vGPU {} holds {} slots and can't give up {}", id.value, holder->count, slots));
  return layout_ == SlotLayout::kContiguous ? ReduceRange(*holder, slots) : GiveMostShared(*holder, slots);
}

/// *Expansion*, lines 2 to 16. Both counts are sums of sharers over a window that moves by one slot from one split to
/// the next.
SlotChange SlotArena::ExpandRange(Holder& holder, std::uint32_t slots) {
  if (holder.count == 0) {
    const std::uint32_t first = Placed(slots, std::max(holder.reach, slots));
    const SlotChange change{0, slots, CostOf({first, slots})};
    holder.first = first;
    holder.count = slots;
    Take({first, slots});
    return change;
  }
  const std::uint32_t end = holder.first + holder.count;
  const std::uint32_t least = slots - std::min(slots, this->slots() - end);
  const std::uint32_t most = std::min(slots, holder.first);
  std::uint64_t count = CostOf({holder.first - least, least}) + CostOf({end, slots - least});
  SlotChange best{least, slots - least, count};
  for (std::uint32_t left = least + 1; left <= most; ++left) {
    count += sharers_[holder.first - left];
    count -= sharers_[end + slots - left];
    if (count < best.overlap) best = {left, slots - left, count};
  }
  Take({holder.first - best.left, best.left});
  Take({end, best.right});
  holder.first -= best.left;
  holder.count += slots;
  return best;
}

/// *Reduction*, lines 2 to 18. `holder` itself is counted among the sharers, which adds the same to each split.
SlotChange SlotArena::ReduceRange(Holder& holder, std::uint32_t slots) {
  const std::uint32_t end = holder.first + holder.count;
  std::uint64_t count = CostOf({end - slots, slots});
  SlotChange best{0, slots, count};
  for (std::uint32_t left = 1; left <= slots; ++left) {
    count += sharers_[holder.first + left - 1];
    count -= sharers_[end - slots + left - 1];
    if (count > best.overlap) best = {left, slots - left, count};
  }
  best.overlap -= slots;
  Give({holder.first, best.left});
  Give({end - best.right, best.right});
  holder.first += best.left;
  holder.count -= slots;
  return best;
}

// -- Scattered -------------------------------------------------------------------------------------------------------

SlotChange SlotArena::TakeLeastShared(Holder& holder, std::uint32_t slots) {
  std::vector<std::uint32_t> by_sharers(holders_.size() + 1, 0);
  for (std::uint32_t slot = 0; slot < this->slots(); ++slot)
    if (!holder.Has(slot)) ++by_sharers[sharers_[slot]];
  std::uint32_t level = 0, rest = slots;  // all slots below the level, and the first `rest` slots on it
  while (level + 1 < by_sharers.size() && by_sharers[level] < rest) rest -= by_sharers[level++];
  SlotChange change;
  for (std::uint32_t slot = 0, left = slots; slot < this->slots() && left > 0; ++slot) {
    if (holder.Has(slot) || sharers_[slot] > level || (sharers_[slot] == level && rest == 0)) continue;
    if (sharers_[slot] == level) --rest;
    --left;
    change.overlap += sharers_[slot]++;
    holder.bits[slot / 64] |= std::uint64_t{1} << (slot % 64);
  }
  holder.count += slots;
  total_ += slots;
  ++changes_;
  return change;
}

SlotChange SlotArena::GiveMostShared(Holder& holder, std::uint32_t slots) {
  std::vector<std::uint32_t> by_sharers(holders_.size() + 1, 0);
  for (std::uint32_t slot = 0; slot < this->slots(); ++slot)
    if (holder.Has(slot)) ++by_sharers[sharers_[slot]];
  std::size_t level = holders_.size();
  std::uint32_t rest = slots;  // all slots above the level, and the last `rest` slots on it
  while (level > 0 && by_sharers[level] < rest) rest -= by_sharers[level--];
  SlotChange change;
  for (std::uint32_t slot = this->slots(), left = slots; slot-- > 0 && left > 0;) {
    if (!holder.Has(slot) || sharers_[slot] < level || (sharers_[slot] == level && rest == 0)) continue;
    if (sharers_[slot] == level) --rest;
    --left;
    change.overlap += --sharers_[slot];
    holder.bits[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  }
  holder.count -= slots;
  total_ -= slots;
  ++changes_;
  return change;
}

void SlotArena::Move(VgpuId id, std::uint32_t from, std::uint32_t to) {
  Holder* holder = Find(id);
  WEIR_CHECK(holder != nullptr && layout_ == SlotLayout::kScattered && Holds(id, from) && to < slots() &&
             !holder->Has(to));
  holder->bits[from / 64] &= ~(std::uint64_t{1} << (from % 64));
  holder->bits[to / 64] |= std::uint64_t{1} << (to % 64);
  --sharers_[from];
  ++sharers_[to];
  ++changes_;
}

// -- Queries ---------------------------------------------------------------------------------------------------------

std::uint32_t SlotArena::CountOf(VgpuId id) const {
  const Holder* holder = Find(id);
  return holder == nullptr ? 0 : holder->count;
}

bool SlotArena::Holds(VgpuId id, std::uint32_t slot) const {
  const Holder* holder = Find(id);
  if (holder == nullptr || slot >= slots()) return false;
  if (layout_ == SlotLayout::kScattered) return holder->Has(slot);
  return slot >= holder->first && slot - holder->first < holder->count;
}

std::vector<SlotRange> SlotArena::RangesOf(VgpuId id) const {
  std::vector<SlotRange> ranges;
  ForEachSlot(id, [&ranges](std::uint32_t slot) {
    if (ranges.empty() || ranges.back().first + ranges.back().count != slot) ranges.push_back({slot, 0});
    ++ranges.back().count;
  });
  return ranges;
}

std::vector<VgpuId> SlotArena::HoldersOf(std::uint32_t slot) const {
  std::vector<VgpuId> holders;
  for (const Holder& holder : holders_)
    if (Holds(holder.id, slot)) holders.push_back(holder.id);
  return holders;
}

std::vector<VgpuId> SlotArena::ids() const {
  std::vector<VgpuId> ids;
  for (const Holder& holder : holders_) ids.push_back(holder.id);
  return ids;
}

std::uint64_t SlotArena::CostOf(SlotRange range) const {
  const std::size_t first = std::min<std::size_t>(range.first, sharers_.size());
  const std::size_t end = std::min<std::size_t>(first + range.count, sharers_.size());
  return std::accumulate(sharers_.begin() + static_cast<std::ptrdiff_t>(first),
                         sharers_.begin() + static_cast<std::ptrdiff_t>(end), std::uint64_t{0});
}

std::uint64_t SlotArena::OverlapOf(VgpuId id) const {
  std::uint64_t overlap = 0;
  ForEachSlot(id, [&](std::uint32_t slot) { overlap += sharers_[slot] - 1; });
  return overlap;
}

std::uint32_t SlotArena::SharedOf(VgpuId id) const {
  std::uint32_t shared = 0;
  ForEachSlot(id, [&](std::uint32_t slot) { shared += sharers_[slot] > 1 ? 1 : 0; });
  return shared;
}

bool SlotArena::SharesAny(VgpuId id) const {
  const Holder* holder = Find(id);
  if (holder == nullptr) return false;
  const auto shared = [](std::uint32_t sharers) { return sharers > 1; };
  if (layout_ == SlotLayout::kContiguous)
    return std::ranges::any_of(std::span(sharers_).subspan(holder->first, holder->count), shared);
  for (std::uint32_t slot = 0; slot < slots(); ++slot)
    if (holder->Has(slot) && shared(sharers_[slot])) return true;
  return false;
}

}  // namespace weir::core
