// SPDX-License-Identifier: Apache-2.0
// Decides which vGPU owns each slot of a device at the moment. vGPUs that hold the same slot take turns at it. The
// present owner's contents are evicted before the next owner's are restored, and a slot changes its owner only after
// the present owner's executor has confirmed the eviction. gVirt copies at each context switch (gBalloon, section 2.1).
// Here switches are rarer than frames because contents are copied, and a turn is longer the more a switch costs. Pure.
// Page: docs/memory.md
//
// A waiting vGPU gets all slots that it waits for at once, or none; slots that do not suffice for it serve a vGPU that
// needs fewer. At most one switch that interrupts another vGPU is in progress at a time, and copying for such switches
// uses at most 1/(1 + copies) of the time, so that other vGPUs compute meanwhile. Scattered slots are interchangeable:
// a waiting vGPU needs a number of slots rather than particular ones, and fewer vGPUs are interrupted.
//
//            wanted, or no other holder is present     another's turn, or it no longer holds the slot
//   unowned ──────────────────────────────▶ assigned ────────────────────────────────────────────▶ revoking
//      ▲                                                                                              │
//      └──────────────────────────────── its executor has evicted the contents ◀──────────────────────┘
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/memory/slot_arena.h"

namespace weir::core {

/// What the daemon observes of a vGPU with an executor. A vGPU without one has nothing on the device.
struct SlotNeed {
  VgpuId id;
  std::uint32_t wants = 0;     // slots that it wants on the device at once; with fewer it evicts its own buffers
  std::uint32_t must = 0;      // slots that a waiting command needs at once; 0: no command waits
  std::uint32_t resident = 0;  // slots that its contents occupy on the device
  Duration copying{};          // total time of copies out and in that were caused by other owners of its slots; may
                               // start at any value
  Instant active{};            // when one of its commands last ran or waited at the gate
  bool done = true;            // it has carried out the last order: its contents fit into HereOf
};

struct TurnTimes {
  Duration least = milliseconds(200);  // shortest turn, while the vGPU uses it
  double copies = 4;                   // a turn is at least this many times as long as the copies of a switch
};

class SlotTurns {
 public:
  SlotTurns(std::uint32_t slots, const TurnTimes& times);

  /// Replaces `TurnTimes::copies` for future turns.
  void SetCopies(double copies) { times_.copies = copies; }

  /// `needs` has each vGPU once, in any order. Returns the time of the next look, `kNever` if no decision depends on
  /// time. Appends to `changed` the vGPUs whose HereOf changed. With scattered slots, a served vGPU afterwards holds
  /// the slots that it was given, as many as before.
  Instant See(Instant now, SlotArena& arena, std::span<const SlotNeed> needs, std::vector<VgpuId>& changed);

  /// Number of slots assigned to the vGPU now.
  [[nodiscard]] std::uint32_t HereOf(VgpuId id) const;
  /// The owner, also while the slot is being revoked; none: the slot is unowned.
  [[nodiscard]] VgpuId OwnerOf(std::uint32_t slot) const {
    return slot < slots_.size() ? slots_[slot].owner : VgpuId{};
  }
  [[nodiscard]] bool Leaving(std::uint32_t slot) const { return slot < slots_.size() && slots_[slot].leaving; }
  /// The vGPU wants slots, or one of its commands waits for slots, that are not assigned to it.
  [[nodiscard]] bool Waits(VgpuId id) const;
  /// Number of switches so far; at each a vGPU got all slots that it waited for.
  [[nodiscard]] std::uint64_t switches() const { return switches_; }

 private:
  struct Slot {
    VgpuId owner{};
    bool leaving = false;
    bool kept = false;    // during a look: a vGPU that has waited for long has reserved it
    VgpuId next_owner{};  // next owner, which gets the slot together with all others that it waits for
  };
  struct Taker {
    VgpuId id;
    SlotNeed need;
    bool present = false;     // it is in `needs` of this look
    std::uint32_t here = 0;   // assigned slots, not revoking
    std::uint32_t total = 0;  // assigned and revoking slots
    bool waits = false;       // it wants more slots than are assigned to it
    bool coming = false;      // it waits and is the next owner of enough slots
    bool interrupts = false;  // some of these belonged to a vGPU whose turn was over
    bool in_turn = false;     // no slot was taken from it since its turn began
    bool restoring = false;   // it has the slots that it waited for, and does not run yet
    Instant since{};          // start of the wait
    Instant came{};           // when it became the next owner of enough slots
    Instant began{};          // start of its turn
    Duration took{};          // copy time from one turn to the next: mean over about four turns
    Duration copied{};        // the total at the start of its turn, or when it was first seen
  };
  /// Slots that a waiting vGPU could get now.
  struct Offer {
    std::uint32_t free = 0;  // unowned or revoking
    std::uint32_t idle = 0;  // owned by vGPUs that wait themselves or have been at rest for long
    std::uint32_t busy = 0;  // owned by vGPUs whose turn is over
  };

  [[nodiscard]] Taker* Find(VgpuId id);
  [[nodiscard]] const Taker* Find(VgpuId id) const;
  /// Records the needs of this look.
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
  void ChooseNextOwner(Instant now, const SlotArena& arena, const Taker& waiter, std::uint32_t missing);
  void MoveTo(SlotArena& arena, const Taker& waiter);
  void GiveAhead(const SlotArena& arena);
  void GiveFree(const SlotArena& arena);
  bool Take(std::uint32_t slot, Taker& taker);
  /// Begins to revoke the slot.
  void Leave(std::uint32_t slot);
  [[nodiscard]] Duration CostOf(const Taker& taker) const;
  [[nodiscard]] Duration TurnOf(const Taker& taker) const { return std::max(times_.least, CostOf(taker)); }
  /// Time from which the slot may be taken from its owner; a time in the past means now.
  [[nodiscard]] Instant TakenFrom(const Taker& owner, const Taker& waiter) const;
  [[nodiscard]] std::uint32_t TargetOf(const SlotArena& arena, const Taker& taker) const;

  TurnTimes times_;
  std::vector<Slot> slots_;
  std::vector<Taker> takers_;    // ascending by id
  std::vector<Taker*> queue_;    // scratch: waiting vGPUs, the longest wait first
  std::uint64_t beyond_ = 0;     // resident slots that are assigned to no vGPU: contents of executors that run since
                                 // before this object was made
  std::uint64_t taken_ = 0;      // slots with an owner
  std::uint64_t leaving_ = 0;    // of the slots with an owner
  std::uint32_t switching_ = 0;  // during a look: number of vGPUs that get or restore slots and interrupt another for
                                 // them
  std::uint64_t arena_seen_ = ~0ULL;  // SlotArena::changes() at the last look
  bool others_ = true;                // a vGPU was added or removed since the last look
  std::uint64_t switches_ = 0;
  Instant next_switch_{};  // no vGPU is interrupted before this time
  Instant look_again_{};
};

}  // namespace weir::core
