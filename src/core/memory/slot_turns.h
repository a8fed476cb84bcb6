// SPDX-License-Identifier: Apache-2.0
// Whose each slot of a device is now. vGPUs that hold the same slot take turns at it: its contents are evicted before
// another's are restored, and nobody gets a slot before the one before it has said that it is gone. gVirt copies at a
// switch of contexts (gBalloon, section 2.1); here switches are rarer than frames, since contents are copied, and a
// turn is the longer the more a switch costs. Pure. Page: docs/memory.md
//
// Who waits gets all that it waits for at once, or nothing: what does not suffice for it serves who needs less. One
// switch that interrupts somebody is under way at a time, and copying for such switches takes the link no more than
// 1/(1 + copies) of the time: meanwhile the others compute. Scattered slots are all alike, so that who waits needs so
// many of any, and fewer are interrupted for it.
//
//            wanted, or nobody else there              another's turn, or it holds the slot no more
//   nobody's ─────────────────────────────▶ its own ──────────────────────────────────────────────▶ leaving
//      ▲                                                                                              │
//      └──────────────────────────────────── its executor has evicted what is over ◀──────────────────┘
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/memory/slot_arena.h"

namespace weir::core {

/// What is seen of a vGPU whose executor is there. One that isn't has nothing on the device.
struct SlotNeed {
  VgpuId id;
  std::uint32_t wants = 0;     // slots that it would have on the device at once; with less it evicts its own
  std::uint32_t must = 0;      // slots that a command needs at once which waits for them; 0: none waits
  std::uint32_t resident = 0;  // slots that its contents take there
  Duration copying{};          // total: out and in since slots were another's for a while
  Instant active{};            // when its commands last ran or waited at the gate
  bool done = true;            // it has carried out the last order: nothing is there beyond HereOf
};

struct TurnTimes {
  Duration least = milliseconds(200);  // a turn, while it is used
  double copies = 4;                   // and at least as many times what its switches had it copy
};

class SlotTurns {
 public:
  SlotTurns(std::uint32_t slots, const TurnTimes& times);

  /// From now on; as `TurnTimes::copies`.
  void SetCopies(double copies) { times_.copies = copies; }

  /// `needs`: each vGPU once, any order. Returns when to look again, `kNever` if nothing waits for time to pass; whose
  /// HereOf is another now is appended to `changed`. Where slots are scattered, who is served holds afterwards what it
  /// was given, as many as before.
  Instant See(Instant now, SlotArena& arena, std::span<const SlotNeed> needs, std::vector<VgpuId>& changed);

  /// Slots that are its own now.
  [[nodiscard]] std::uint32_t HereOf(VgpuId id) const;
  /// Whose it is, also while it is leaving; none: nobody's.
  [[nodiscard]] VgpuId OwnerOf(std::uint32_t slot) const {
    return slot < slots_.size() ? slots_[slot].owner : VgpuId{};
  }
  [[nodiscard]] bool Leaving(std::uint32_t slot) const { return slot < slots_.size() && slots_[slot].leaving; }
  /// It wants, or a command of it waits for, slots that are others'.
  [[nodiscard]] bool Waits(VgpuId id) const;
  /// Switches so far: a vGPU got all that it waited for.
  [[nodiscard]] std::uint64_t switches() const { return switches_; }

 private:
  struct Slot {
    VgpuId owner{};
    bool leaving = false;
    bool kept = false;  // within a look: for one that has waited for long
    VgpuId heir{};      // who gets it next, with all else that it waits for
  };
  struct Taker {
    VgpuId id;
    SlotNeed need;
    bool present = false;     // in this look
    std::uint32_t here = 0;   // its own, not leaving
    std::uint32_t total = 0;  // and leaving
    bool waits = false;       // it wants more than is its own now
    bool coming = false;      // and it is heir to enough
    bool interrupts = false;  // that was others' whose turn was over
    bool in_turn = false;     // nothing was taken from it since its turn began
    bool restoring = false;   // it has what it waited for, and does not run yet
    Instant since{};          // it waits
    Instant came{};           // it is coming since
    Instant began{};          // its turn
    Duration took{};          // what it copied from one turn to the next: mean over about four
    Duration copied{};        // total, when its turn began
  };
  /// What a waiter could have now, in slots.
  struct Offer {
    std::uint32_t free = 0;  // nobody's, or leaving
    std::uint32_t idle = 0;  // of those who wait themselves, or rest for long
    std::uint32_t busy = 0;  // of those whose turn is over
  };

  [[nodiscard]] Taker* Find(VgpuId id);
  [[nodiscard]] const Taker* Find(VgpuId id) const;
  void Note(Instant now, std::span<const SlotNeed> needs);
  void Follow(Instant now, const SlotArena& arena);
  [[nodiscard]] bool Quiet(const SlotArena& arena) const;
  void Settle(const SlotArena& arena);
  void BeginTurn(Instant now, Taker& taker);
  void Serve(Instant now, SlotArena& arena, Taker& waiter);
  template <typename Visit>
  void EachOther(const SlotArena& arena, const Taker& waiter, Visit visit);
  [[nodiscard]] Offer OfferTo(Instant now, const SlotArena& arena, const Taker& waiter);
  void Refuse(Instant now, const SlotArena& arena, Taker& waiter);
  void MakeHeir(Instant now, const SlotArena& arena, const Taker& waiter, std::uint32_t missing);
  void MoveTo(SlotArena& arena, const Taker& waiter);
  void GiveAhead(const SlotArena& arena);
  void GiveFree(const SlotArena& arena);
  bool Take(std::uint32_t slot, Taker& taker);
  void Leave(std::uint32_t slot);
  [[nodiscard]] Duration CostOf(const Taker& taker) const;
  [[nodiscard]] Duration TurnOf(const Taker& taker) const { return std::max(times_.least, CostOf(taker)); }
  /// When it may be taken from its owner; in the past: now.
  [[nodiscard]] Instant TakenFrom(const Taker& owner, const Taker& waiter) const;
  [[nodiscard]] std::uint32_t TargetOf(const SlotArena& arena, const Taker& taker) const;

  TurnTimes times_;
  std::vector<Slot> slots_;
  std::vector<Taker> takers_;    // by id, ascending
  std::vector<Taker*> queue_;    // scratch: who waits, longest first
  std::uint64_t beyond_ = 0;     // resident slots that no account says: an executor of a daemon before this one
  std::uint64_t taken_ = 0;      // slots with an owner
  std::uint64_t leaving_ = 0;    // of these
  std::uint32_t switching_ = 0;  // within a look: who comes or restores, and interrupts for it
  std::uint64_t arena_seen_ = ~0ULL;
  bool others_ = true;  // somebody came or went
  std::uint64_t switches_ = 0;
  Instant next_switch_{};  // nobody is interrupted before
  Instant look_again_{};
};

}  // namespace weir::core
