// SPDX-License-Identifier: Apache-2.0
// An executor's memory, where it is elastic: it keeps to the daemon's orders as the OpenCL executor's buffer store
// does. What it holds it restores when a frame waits for it, what is over it evicts when nothing in flight uses it, and
// what its slots don't suffice for passes over the link with every frame. Counts of slots, all of them alike.
//
//   a frame   [draws] ──▶ waits until all that it may have is there ──▶ [gate] ──▶ passes what doesn't fit ──▶ runs
//                         └── restored as the slots become its own                 └──────── pinned ─────────────┘
//   an order  lowers `here` ──▶ no frame begins any more ──▶ the last one ends ──▶ out, over the link ──▶ done
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace weir::sim {

/// The link between the host's memory and the device's: copies go one after the other, first come first served.
class CopyLink {
 public:
  explicit CopyLink(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  [[nodiscard]] Duration Takes(double slots) const {
    return FromSeconds(slots * static_cast<double>(kSlotBytes.count) / bytes_per_s_);
  }
  /// When the copy that is asked for now has been made.
  Instant Copy(Instant now, double slots) {
    const Duration takes = Takes(slots);
    if (takes <= Duration{0}) return now;
    free_at_ = std::max(free_at_, now) + takes;
    asked_ += takes;
    return free_at_;
  }
  /// Time in which something was copied, up to now.
  [[nodiscard]] Duration Busy(Instant now) const { return asked_ - std::max(free_at_ - now, Duration{0}); }

 private:
  double bytes_per_s_;
  Instant free_at_{};
  Duration asked_{};
};

/// Which part of the time something took that is known as a total, over the last tenth of a second that is over.
class RecentPart {
 public:
  double Of(Instant now, Duration total) {
    constexpr Duration kWindow = milliseconds(100);
    if (now - since_ < kWindow) return part_;
    part_ = std::clamp(SecondsOf(total - before_) / SecondsOf(now - since_), 0.0, 1.0);
    since_ = now;
    before_ = total;
    return part_;
  }

 private:
  Instant since_{};
  Duration before_{};
  double part_ = 0;
};

/// One vGPU's. Slots on the device count from when a copy to them begins until one from them has ended.
struct ElasticHolding {
  enum class Copy : std::uint8_t { kNone, kOut, kIn };
  // Its program's
  std::uint32_t wants = 0;    // each frame reads them all
  std::uint32_t command = 0;  // of these one command needs at once; 0: a frame is one
  double dirty = 1;           // part of what is evicted that has to be copied out
  // The last order
  std::uint32_t held = 0;
  std::uint32_t here = 0;
  // On the device
  std::uint32_t resident = 0;
  std::uint32_t moving = 0;  // of these, on their way
  Copy copy = Copy::kNone;
  std::uint32_t pinned = 0;   // frames in flight
  std::uint32_t waiting = 0;  // frames that wait
  std::uint32_t away = 0;     // evicted since others hold its slots too, and not back yet
  bool rings = false;         // the daemon hears when the order is carried out
  // The books: totals
  Duration switch_copy{};
  double copied_out = 0, copied_in = 0;  // slots
  std::uint64_t evictions = 0;

  /// Slots that must be its own before a frame runs.
  [[nodiscard]] std::uint32_t FrameNeeds() const { return std::min(wants, command > 0 ? command : held); }
  /// Slots that it has use for, of those that are its own.
  [[nodiscard]] std::uint32_t Useful() const { return std::min(wants, here); }
  /// Slots that pass over the link with a frame that runs now.
  [[nodiscard]] std::uint32_t Spilled() const { return wants - std::min(wants, resident); }
  [[nodiscard]] bool Ready() const { return copy == Copy::kNone && here >= FrameNeeds() && resident == Useful(); }
  /// Nothing is there that isn't its own.
  [[nodiscard]] bool Done() const { return resident <= here; }
  /// What a frame that waits can't do without, also while it is copied: who restores is not at rest.
  [[nodiscard]] std::uint32_t Must() const { return waiting > 0 && !Ready() ? FrameNeeds() : 0; }
};

class ElasticMemory {
 public:
  explicit ElasticMemory(double link_bytes_per_s) : link_(link_bytes_per_s) {}

  /// Begins what it can do now: when it will have ended, if something was begun. Ask again then (`Ended`), and whenever
  /// an order came, a frame began to wait or the last one in flight ended.
  std::optional<Instant> Next(Instant now, ElasticHolding& h) {
    if (h.copy != ElasticHolding::Copy::kNone) return std::nullopt;
    h.resident = std::min(h.resident, h.wants);  // buffers that are gone leave nothing to copy
    if (h.resident > h.here) return h.pinned > 0 ? std::nullopt : std::optional(Evict(now, h));
    if (h.waiting == 0 || h.resident >= h.Useful()) return std::nullopt;
    return Restore(now, h, h.Useful() - h.resident);
  }
  static void Ended(ElasticHolding& h) {
    if (h.copy == ElasticHolding::Copy::kOut) h.resident -= std::min(h.moving, h.resident);
    h.moving = 0;
    h.copy = ElasticHolding::Copy::kNone;
  }
  /// What its slots don't suffice for goes in and out again for one frame: when that is over.
  Instant Pass(Instant now, ElasticHolding& h) {
    const double slots = h.Spilled();
    h.copied_in += slots;
    h.copied_out += slots * h.dirty;
    h.evictions += h.Spilled();
    return link_.Copy(now, slots * (1 + h.dirty));
  }
  /// Its processes are gone, and with them what they had there.
  static void Release(ElasticHolding& h) {
    h.resident = h.moving = h.pinned = h.waiting = h.away = 0;
    h.copy = ElasticHolding::Copy::kNone;
  }

  [[nodiscard]] const CopyLink& link() const { return link_; }

 private:
  Instant Evict(Instant now, ElasticHolding& h) {
    const std::uint32_t slots = h.resident - h.here;
    const std::uint32_t lost = h.resident - std::min(h.resident, h.held);  // these it holds no more: no switch
    const std::uint32_t switched = slots - std::min(lost, slots);
    h.copy = ElasticHolding::Copy::kOut;
    h.moving = slots;
    h.away += switched;
    h.evictions += slots;
    h.copied_out += slots * h.dirty;
    h.switch_copy += link_.Takes(switched * h.dirty);
    return link_.Copy(now, slots * h.dirty);
  }
  Instant Restore(Instant now, ElasticHolding& h, std::uint32_t slots) {
    const std::uint32_t back = std::min(h.away, slots);
    h.copy = ElasticHolding::Copy::kIn;
    h.moving = slots;
    h.resident += slots;
    h.away = h.resident >= std::min(h.wants, h.held) ? 0 : h.away - back;
    h.copied_in += slots;
    h.switch_copy += link_.Takes(back);
    return link_.Copy(now, slots);
  }

  CopyLink link_;
};

}  // namespace weir::sim
