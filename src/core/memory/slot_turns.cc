// SPDX-License-Identifier: Apache-2.0
#include "core/memory/slot_turns.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/schedule/policy.h"

namespace weir::core {
namespace {

/// A vGPU that has not used the device for at least this long is at rest within its turn.
constexpr Duration kRestsAfter = milliseconds(2);

/// A vGPU has to restore its contents within this time. Otherwise its slots may be taken before its turn has begun.
constexpr Duration kRestoredWithin = seconds(10);

/// The longest copying of one switch that is believed: contents go out and come in again. Executors report it about
/// themselves, and a turn is a multiple of it.
constexpr Duration kSwitchCopyMax = 2 * kRestoredWithin;

/// A vGPU that has waited for this many turns of its own length reserves its slots against those that wait for a
/// shorter time.
constexpr int kPatience = 8;

}  // namespace

SlotTurns::SlotTurns(std::uint32_t slots, const TurnTimes& times) : times_(times), slots_(slots) {}

const SlotTurns::Taker* SlotTurns::Find(VgpuId id) const {
  const auto found = std::ranges::lower_bound(takers_, id, {}, &Taker::id);
  return found != takers_.end() && found->id == id ? &*found : nullptr;
}
SlotTurns::Taker* SlotTurns::Find(VgpuId id) { return const_cast<Taker*>(std::as_const(*this).Find(id)); }

std::uint32_t SlotTurns::HereOf(VgpuId id) const {
  const Taker* taker = Find(id);
  return taker == nullptr ? 0 : taker->here;
}

bool SlotTurns::Waits(VgpuId id) const {
  const Taker* taker = Find(id);
  return taker != nullptr && taker->waits;
}

Instant SlotTurns::See(Instant now, SlotArena& arena, std::span<const SlotNeed> needs, std::vector<VgpuId>& changed) {
  WEIR_CHECK(arena.slots() == slots_.size());
  look_again_ = kNever;
  Note(now, needs);
  if (Quiet(arena)) return kNever;
  std::vector<std::pair<VgpuId, std::uint32_t>> before;
  before.reserve(takers_.size());
  for (const Taker& taker : takers_) before.emplace_back(taker.id, taker.here);

  Settle(arena);
  Follow(now, arena);
  for (Taker* waiter : queue_) Serve(now, arena, *waiter);
  GiveAhead(arena);
  GiveFree(arena);
  for (Slot& slot : slots_) slot.kept = false;

  for (const auto& [id, here] : before)
    if (const Taker* taker = Find(id); taker->here != here) changed.push_back(id);
  std::erase_if(takers_, [](const Taker& taker) { return !taker.present && taker.total == 0; });
  arena_seen_ = arena.changes();
  others_ = false;
  return look_again_;
}

void SlotTurns::Note(Instant now, std::span<const SlotNeed> needs) {
  std::size_t known = 0;
  for (Taker& taker : takers_) taker.present = false;
  for (const SlotNeed& need : needs) {
    auto at = std::ranges::lower_bound(takers_, need.id, {}, &Taker::id);
    if (at == takers_.end() || at->id != need.id) {
      at = takers_.insert(at, Taker{.id = need.id, .need = need, .copied = std::max(need.copying, Duration{})});
      others_ = true;
    }
    at->need = need;
    at->need.copying = std::max(need.copying, Duration{});
    if (need.must > 0) at->need.active = now;
    at->present = true;
    ++known;
  }
  others_ |= known != takers_.size();
}

/// Whether no slot can be assigned and none must be revoked. Such a look need not walk over all slots.
bool SlotTurns::Quiet(const SlotArena& arena) const {
  if (others_ || leaving_ > 0 || arena.changes() != arena_seen_) return false;
  return std::ranges::none_of(takers_, [&](const Taker& taker) {
    return taker.restoring || taker.here < TargetOf(arena, taker) || taker.need.resident > taker.total;
  });
}

/// Frees slots whose eviction is done and slots of vGPUs that are not present. Revokes slots that their owner no longer
/// holds.
void SlotTurns::Settle(const SlotArena& arena) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.next_owner) {
      const Taker* next_owner = Find(slot.next_owner);
      if (next_owner == nullptr || !next_owner->present || !next_owner->waits || !arena.Holds(next_owner->id, i))
        slot.next_owner = {};
    }
    if (!slot.owner) continue;
    Taker& owner = *Find(slot.owner);
    if (!slot.leaving && (!owner.present || !arena.Holds(owner.id, i))) {
      Leave(i);
      if (owner.present) continue;  // its executor does not have the order yet
    }
    // An order counts as done only if the contents also fit into the assigned slots.
    if (!slot.leaving || (owner.present && (!owner.need.done || owner.need.resident > owner.here))) continue;
    slot.owner = {};
    slot.leaving = false;
    --owner.total;
    --taken_;
    --leaving_;
  }
  beyond_ = 0;
  for (const Taker& taker : takers_)
    if (taker.present && taker.need.resident > taker.total) beyond_ += taker.need.resident - taker.total;
}

/// Builds the queue of waiting vGPUs, the longest wait first. A vGPU that needs more slots during its turn continues
/// its turn and keeps its start of waiting, since it has waited before.
void SlotTurns::Follow(Instant now, const SlotArena& arena) {
  queue_.clear();
  switching_ = 0;
  for (Taker& taker : takers_) {
    if (taker.restoring && taker.need.must == 0) {  // it runs, so its turn begins
      taker.restoring = false;
      taker.began = now;
    }
    const bool waits = taker.present && taker.here < TargetOf(arena, taker);
    if (waits && !taker.waits && !taker.in_turn) taker.since = now;
    taker.waits = waits;
    taker.coming &= waits;
    taker.restoring &= !waits;
    if (waits) queue_.push_back(&taker);
    const bool switches = taker.coming ? taker.interrupts && now < taker.came + kRestoredWithin
                                       : taker.restoring && now < taker.began + kRestoredWithin;
    switching_ += switches ? 1 : 0;
  }
  std::ranges::sort(queue_, {}, [](const Taker* taker) { return std::pair(taker->since, taker->id); });
}

/// Called when the vGPU has all slots that it waited for.
void SlotTurns::BeginTurn(Instant now, Taker& taker) {
  taker.waits = taker.coming = false;
  taker.restoring = taker.need.must > 0;
  const bool interrupted = std::exchange(taker.interrupts, false);
  if (std::exchange(taker.in_turn, true)) return;
  taker.began = now;
  const Duration from = std::exchange(taker.copied, taker.need.copying);
  const Duration copied = taker.need.copying >= from ? std::min(taker.need.copying - from, kSwitchCopyMax) : Duration{};
  taker.took = taker.took == Duration{} ? copied : (taker.took * 3 + copied) / 4;
  if (interrupted) next_switch_ = now + CostOf(taker);
  ++switches_;
}

std::uint32_t SlotTurns::TargetOf(const SlotArena& arena, const Taker& taker) const {
  return std::min(arena.CountOf(taker.id), std::max(taker.need.must, taker.need.wants));
}

/// The copy time of its switches, times `copies`.
Duration SlotTurns::CostOf(const Taker& taker) const {
  return Duration{static_cast<std::int64_t>(static_cast<double>(taker.took.count()) * times_.copies)};
}

Instant SlotTurns::TakenFrom(const Taker& owner, const Taker& waiter) const {
  if (owner.waits) {  // it can't use the slot until it has more slots
    if (owner.coming) return kNever;
    const bool older = std::pair(owner.since, owner.id) < std::pair(waiter.since, waiter.id);
    return owner.in_turn && older ? owner.began + TurnOf(owner) : Instant::min();
  }
  if (owner.restoring) return owner.began + kRestoredWithin;
  return std::min(owner.began + TurnOf(owner), owner.need.active + std::max(kRestsAfter, owner.took));
}

/// Visits the slots that the waiting vGPU could get: those that it holds, or any slot in the scattered layout.
template <typename Visit>
void SlotTurns::EachOther(const SlotArena& arena, const Taker& waiter, Visit visit) {
  const auto one = [&](std::uint32_t i) {
    Slot& slot = slots_[i];
    const bool own = slot.owner == waiter.id && !slot.leaving;
    if (!own && !slot.kept && (!slot.next_owner || slot.next_owner == waiter.id)) visit(i, slot);
  };
  if (arena.layout() == SlotLayout::kContiguous) return arena.ForEachSlot(waiter.id, one);
  for (std::uint32_t i = 0; i < slots_.size(); ++i) one(i);
}

SlotTurns::Offer SlotTurns::OfferTo(Instant now, const SlotArena& arena, const Taker& waiter) {
  Offer offer;
  EachOther(arena, waiter, [&](std::uint32_t, const Slot& slot) {
    if (!slot.owner || slot.leaving) {
      ++offer.free;
      return;
    }
    const Taker& owner = *Find(slot.owner);
    const Instant when = TakenFrom(owner, waiter);
    if (when > now) {
      look_again_ = std::min(look_again_, when);
    } else if (owner.waits || owner.need.active + std::max(kRestsAfter, CostOf(owner)) <= now) {
      ++offer.idle;
    } else {
      ++offer.busy;
    }
  });
  return offer;
}

/// Assigns all slots that the vGPU waits for, or makes it their next owner. If they are not available, it gets none.
void SlotTurns::Serve(Instant now, SlotArena& arena, Taker& waiter) {
  const std::uint32_t target = TargetOf(arena, waiter);
  const std::uint32_t missing = target - waiter.here;
  // The need of one command is enough to let it run.
  const std::uint32_t must = std::min(waiter.need.must, target);
  const std::uint32_t spared = must > waiter.here ? target - must : 0;
  const Offer offer = OfferTo(now, arena, waiter);
  const bool interrupts = offer.free + offer.idle + spared < missing;
  if (offer.free + offer.idle + offer.busy + spared < missing) return Refuse(now, arena, waiter);
  if (interrupts && !waiter.coming && (switching_ > 0 || now < next_switch_)) {
    if (switching_ == 0) look_again_ = std::min(look_again_, next_switch_);
    return Refuse(now, arena, waiter);
  }
  if (!std::exchange(waiter.coming, true)) {
    waiter.came = now;
    waiter.interrupts = interrupts;
    if (interrupts) ++switching_;
  }
  ChooseNextOwner(now, arena, waiter, missing);
  if (arena.layout() == SlotLayout::kScattered) MoveTo(arena, waiter);
  EachOther(arena, waiter, [&](std::uint32_t i, Slot& slot) {
    if (slot.next_owner == waiter.id && !slot.owner && Take(i, waiter)) slot.next_owner = {};
  });
  if (waiter.here >= target) BeginTurn(now, waiter);
}

/// The vGPU gets no slots now. One that has waited for kPatience reserves those of its possible slots whose turn is
/// over. Once the last of these turns is over, all of the slots are available.
void SlotTurns::Refuse(Instant now, const SlotArena& arena, Taker& waiter) {
  waiter.coming = false;
  const Instant patient_until = waiter.since + kPatience * TurnOf(waiter);
  const bool keeps = patient_until <= now;
  if (!keeps) look_again_ = std::min(look_again_, patient_until);
  EachOther(arena, waiter, [&](std::uint32_t, Slot& slot) {
    slot.next_owner = {};
    slot.kept = keeps && (!slot.owner || slot.leaving || TakenFrom(*Find(slot.owner), waiter) <= now);
  });
}

/// Chooses unowned slots first, then slots that are being revoked, then the slots of one owner after another: owners
/// that wait themselves first, then the owner whose turn began first. So few vGPUs are interrupted and little is
/// copied.
void SlotTurns::ChooseNextOwner(Instant now, const SlotArena& arena, const Taker& waiter, std::uint32_t missing) {
  const auto give = [&](auto suits) {
    EachOther(arena, waiter, [&](std::uint32_t i, Slot& slot) {
      if (missing == 0 || !suits(slot)) return;
      if (slot.owner && !slot.leaving) Leave(i);
      slot.next_owner = waiter.id;
      --missing;
    });
  };
  std::uint32_t had = 0;
  EachOther(arena, waiter, [&](std::uint32_t, Slot& slot) {
    if (slot.next_owner == waiter.id && had++ >= missing) slot.next_owner = {};
  });
  missing -= std::min(had, missing);
  give([](const Slot& slot) { return !slot.next_owner && !slot.owner; });
  give([](const Slot& slot) { return !slot.next_owner && slot.leaving; });
  while (missing > 0) {
    const auto rank = [](const Taker& owner) {
      return std::tuple(!owner.waits, owner.in_turn, owner.waits ? -NsOf(owner.since) : NsOf(owner.began), owner.id);
    };
    const Taker* first = nullptr;
    EachOther(arena, waiter, [&](std::uint32_t, const Slot& slot) {
      if (!slot.owner || slot.leaving || slot.next_owner) return;
      const Taker* owner = Find(slot.owner);
      if (owner != first && TakenFrom(*owner, waiter) <= now && (first == nullptr || rank(*owner) < rank(*first)))
        first = owner;
    });
    if (first == nullptr) return;
    const VgpuId from = first->id;
    Find(from)->in_turn = false;
    give([from](const Slot& slot) { return slot.owner == from && !slot.leaving && !slot.next_owner; });
  }
}

/// Scattered: exchanges slots that the waiting vGPU holds for those of which it is the next owner.
void SlotTurns::MoveTo(SlotArena& arena, const Taker& waiter) {
  std::vector<std::uint32_t> others;
  arena.ForEachSlot(waiter.id, [&](std::uint32_t i) {
    const Slot& slot = slots_[i];
    if ((slot.owner != waiter.id || slot.leaving) && slot.next_owner != waiter.id) others.push_back(i);
  });
  EachOther(arena, waiter, [&](std::uint32_t i, const Slot& slot) {
    if (slot.next_owner != waiter.id || arena.Holds(waiter.id, i)) return;
    arena.Move(waiter.id, others.back(), i);
    others.pop_back();
  });
}

/// Assigns slots that no vGPU can run with now to holders that wait, so that they restore contents early.
void SlotTurns::GiveAhead(const SlotArena& arena) {
  for (Taker* waiter : queue_) {
    if (!waiter->waits) continue;
    const std::uint32_t target = TargetOf(arena, *waiter);
    arena.ForEachSlot(waiter->id, [&](std::uint32_t i) {
      if (waiter->here < target && !slots_[i].owner && !slots_[i].next_owner && !slots_[i].kept)
        static_cast<void>(Take(i, *waiter));
    });
  }
}

/// Assigns unowned slots: first to holders that want them, then to a vGPU that is the only present holder.
void SlotTurns::GiveFree(const SlotArena& arena) {
  if (taken_ == slots_.size()) return;
  std::vector<std::uint8_t> holders(slots_.size(), 0);
  for (const Taker& taker : takers_)
    if (taker.present)
      arena.ForEachSlot(taker.id, [&](std::uint32_t i) {
        holders[i] = static_cast<std::uint8_t>(holders[i] + (holders[i] < 2 ? 1 : 0));
      });
  for (const bool wanted : {true, false})
    for (Taker& taker : takers_) {
      if (!taker.present) continue;
      const std::uint32_t target = TargetOf(arena, taker);
      arena.ForEachSlot(taker.id, [&](std::uint32_t i) {
        if (slots_[i].owner || slots_[i].next_owner) return;
        if (wanted ? taker.here < target : holders[i] == 1) static_cast<void>(Take(i, taker));
      });
    }
}

/// Assigns a slot. Returns false if contents on the device leave no room for it yet.
bool SlotTurns::Take(std::uint32_t slot, Taker& taker) {
  if (taken_ + beyond_ >= slots_.size()) {
    // Assigning a slot to contents that are already resident adds nothing to the device.
    if (taker.need.resident <= taker.total) return false;
    --beyond_;
  } else if (taker.need.resident > taker.total && beyond_ > 0) {
    --beyond_;
  }
  slots_[slot].owner = taker.id;
  ++taker.here;
  ++taker.total;
  ++taken_;
  return true;
}

void SlotTurns::Leave(std::uint32_t slot) {
  slots_[slot].leaving = true;
  ++leaving_;
  --Find(slots_[slot].owner)->here;
}

}  // namespace weir::core
