// SPDX-License-Identifier: Apache-2.0
#include "core/memory/slot_turns.h"

#include <algorithm>
#include <utility>

#include "core/schedule/policy.h"

namespace weir::core {
namespace {

/// Who has not used the device for so long, at least, is at rest within its turn.
constexpr Duration kRestsAfter = milliseconds(2);

/// What a vGPU waited for is restored within so long, or its turn is over before it began.
constexpr Duration kRestoredWithin = seconds(10);

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

Instant SlotTurns::See(Instant now, const SlotArena& arena, std::span<const SlotNeed> needs,
                       std::vector<VgpuId>& changed) {
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
  GiveFree(arena);
  for (Slot& slot : slots_) slot.claimed = false;

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
      at = takers_.insert(at, Taker{.id = need.id, .need = need});
      others_ = true;
    }
    at->need = need;
    if (need.must > 0) at->need.active = now;
    at->present = true;
    ++known;
  }
  others_ |= known != takers_.size();
}

/// Nothing can be given or is to be taken, so that a look costs no walk over all slots.
bool SlotTurns::Quiet(const SlotArena& arena) const {
  if (others_ || leaving_ > 0 || arena.changes() != arena_seen_) return false;
  return std::ranges::none_of(takers_, [&](const Taker& taker) {
    return taker.restoring || taker.here < TargetOf(arena, taker) || taker.need.resident > taker.total;
  });
}

/// Gives back what has left, and what belongs to nobody who is there; lets leave what its owner holds no more.
void SlotTurns::Settle(const SlotArena& arena) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.owner) continue;
    Taker& owner = *Find(slot.owner);
    if (!slot.leaving && (!owner.present || !arena.Holds(owner.id, i))) {
      Leave(i);
      if (owner.present) continue;  // it has not been told yet
    }
    // One that says it is done and has more there isn't.
    if (!slot.leaving || (owner.present && (!owner.need.done || owner.need.resident > owner.here))) continue;
    slot = {};
    --owner.total;
    --taken_;
    --leaving_;
  }
  beyond_ = 0;
  for (const Taker& taker : takers_)
    if (taker.present && taker.need.resident > taker.total) beyond_ += taker.need.resident - taker.total;
}

/// Who waits, the longest first.
void SlotTurns::Follow(Instant now, const SlotArena& arena) {
  queue_.clear();
  for (Taker& taker : takers_) {
    if (taker.restoring && taker.need.must == 0) {  // it runs: its turn begins
      taker.restoring = false;
      taker.began = now;
    }
    const bool waits = taker.present && taker.here < TargetOf(arena, taker);
    if (waits && !taker.waits) taker.since = now;
    taker.waits = waits;
    if (waits) queue_.push_back(&taker);
  }
  std::ranges::sort(queue_, {}, [](const Taker* taker) { return std::pair(taker->since, taker->id); });
}

/// It has all that it waited for.
void SlotTurns::BeginTurn(Instant now, Taker& taker) {
  taker.waits = false;
  taker.restoring = taker.need.must > 0;
  taker.began = now;
  const Duration from = std::exchange(taker.copied, taker.need.copying);
  const Duration copied = taker.need.copying >= from ? taker.need.copying - from : Duration{};
  taker.took = taker.took == Duration{} ? copied : (taker.took * 3 + copied) / 4;
  ++switches_;
}

std::uint32_t SlotTurns::TargetOf(const SlotArena& arena, const Taker& taker) const {
  return std::min(arena.CountOf(taker.id), std::max(taker.need.must, taker.need.wants));
}

Instant SlotTurns::TakenFrom(const Taker& owner, const Taker& waiter) const {
  if (owner.waits) {  // and has no use for it until it has more: the one that has waited longer goes first
    const bool younger = std::pair(owner.since, owner.id) > std::pair(waiter.since, waiter.id);
    return younger ? Instant::min() : kNever;
  }
  if (owner.restoring) return owner.began + kRestoredWithin;
  const Duration by_cost{static_cast<std::int64_t>(static_cast<double>(owner.took.count()) * times_.copies)};
  return std::min(owner.began + std::max(times_.least, by_cost), owner.need.active + std::max(kRestsAfter, owner.took));
}

/// What is free and what rests goes to it at once, so that it restores ahead; who computes is only interrupted when
/// that is enough for it to run.
void SlotTurns::Serve(Instant now, const SlotArena& arena, Taker& waiter) {
  const std::uint32_t target = TargetOf(arena, waiter);
  std::uint32_t missing = target > waiter.here ? target - waiter.here : 0;
  // What one command needs suffices for it to run.
  const std::uint32_t spared = target - std::clamp(waiter.need.must, std::uint32_t{0}, target);
  const bool blocked = waiter.need.must > waiter.here;
  std::uint32_t due = 0;
  const auto each_other = [&](auto visit) {
    arena.ForEachSlot(waiter.id, [&](std::uint32_t i) {
      if (missing > 0 && !slots_[i].claimed && slots_[i].owner != waiter.id) visit(i, slots_[i]);
    });
  };
  each_other([&](std::uint32_t i, Slot& slot) {
    if (slot.owner) return;
    if (Take(i, waiter)) {
      --missing;
    } else {  // soon: somebody is told to leave what no account says
      slot.claimed = true;
      --missing;
    }
  });
  each_other([&](std::uint32_t, Slot& slot) {
    if (!slot.leaving) return;
    slot.claimed = true;
    --missing;
  });
  each_other([&](std::uint32_t, Slot& slot) {
    const Instant when = slot.leaving || !slot.owner ? kNever : TakenFrom(*Find(slot.owner), waiter);
    if (when <= now) {
      ++due;
    } else {
      look_again_ = std::min(look_again_, when);
    }
  });
  if (due + (blocked ? spared : 0) >= missing)
    each_other([&](std::uint32_t i, Slot& slot) {
      if (slot.leaving || !slot.owner || TakenFrom(*Find(slot.owner), waiter) > now) return;
      Find(slot.owner)->since = now;  // if it still waits, then behind everybody else
      Leave(i);
      slot.claimed = true;
      --missing;
    });
  if (waiter.here >= target) BeginTurn(now, waiter);
}

/// To who wants it, and to who is the only one there that holds it.
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
        if (slots_[i].owner || slots_[i].claimed) return;
        if (wanted ? taker.here < target : holders[i] == 1) static_cast<void>(Take(i, taker));
      });
    }
}

/// False: what is on the device leaves no room for it yet.
bool SlotTurns::Take(std::uint32_t slot, Taker& taker) {
  if (taken_ + beyond_ >= slots_.size()) {
    // What it has there already is no more for being accounted.
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
