// SPDX-License-Identifier: Apache-2.0
// An executor's elastic memory. It carries out the daemon's memory orders as the OpenCL executor's buffer store does:
//
// - it restores its assigned slots when a frame waits for them;
// - it evicts slots beyond them when no frame in flight uses its memory;
// - with every frame it copies over the link, in and out again, the buffers that do not fit.
//
// Only numbers of slots are modelled; no slot is used more often than another.
//
//   a frame   [draws] ──▶ waits until its assigned slots are restored ──▶ copies what does not fit ──▶ [gate] ──▶ runs
//                                                                                                      └── pinned ──┘
//   an order  lowers `here` ──▶ no frame begins any more ──▶ the last one ends ──▶ evicted, over the link ──▶ done
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
  /// Queues a copy, and returns when it will have been made.
  Instant Copy(Instant now, double slots) {
    const Duration takes = Takes(slots);
    if (takes <= Duration{0}) return now;
    free_at_ = std::max(free_at_, now) + takes;
    asked_ += takes;
    return free_at_;
  }
  /// Time up to now in which the link copied.
  [[nodiscard]] Duration Busy(Instant now) const { return asked_ - std::max(free_at_ - now, Duration{0}); }

 private:
  double bytes_per_s_;
  Instant free_at_{};
  Duration asked_{};
};

/// The fraction of recent time that an activity took, computed from its growing total. Recomputed when at least a tenth
/// of a second has passed since the last time.
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

/// The memory of one vGPU. A slot counts as resident from the beginning of a copy to it to the end of a copy from it.
struct ElasticHolding {
  enum class Copy : std::uint8_t { kNone, kOut, kIn };
  // Of its program
  std::uint32_t wants = 0;    // slots of its buffers; each frame reads all of them
  std::uint32_t command = 0;  // slots that one command needs at once; 0: a frame is one command
  double dirty = 1;           // fraction of the evicted memory that has to be copied out
  // The last memory order
  std::uint32_t held = 0;  // slots that the vGPU holds, some of them perhaps together with others
  std::uint32_t here = 0;  // assigned slots: those that it may use now
  // On the device
  std::uint32_t resident = 0;
  std::uint32_t moving = 0;  // of these, being copied
  Copy copy = Copy::kNone;
  std::uint32_t pinned = 0;   // frames in flight that use slots
  std::uint32_t waiting = 0;  // frames that wait for memory
  std::uint32_t away = 0;     // held slots that were evicted for another holder and are not restored yet
  bool rings = false;         // the executor rings the doorbell when the order has been carried out
  // Totals
  Duration switch_copy{};                // copying for turns between holders
  double copied_out = 0, copied_in = 0;  // slots
  std::uint64_t evictions = 0;

  /// Slots that must be assigned to it before a frame runs.
  [[nodiscard]] std::uint32_t FrameNeeds() const { return std::min(wants, command > 0 ? command : held); }
  /// Assigned slots that its buffers fill.
  [[nodiscard]] std::uint32_t Useful() const { return std::min(wants, here); }
  /// Slots that are copied over the link for each frame, since they do not fit.
  [[nodiscard]] std::uint32_t Spilled() const { return wants - std::min(wants, resident); }
  /// A frame may run.
  [[nodiscard]] bool Ready() const { return copy == Copy::kNone && here >= FrameNeeds() && resident == Useful(); }
  /// The order has been carried out: no more slots are resident than are assigned.
  [[nodiscard]] bool Done() const { return resident <= here; }
  /// Slots that a waiting frame needs at least, also while they are restored: a vGPU that restores is not idle.
  [[nodiscard]] std::uint32_t Must() const { return waiting > 0 && !Ready() ? FrameNeeds() : 0; }
};

class ElasticMemory {
 public:
  explicit ElasticMemory(double link_bytes_per_s) : link_(link_bytes_per_s) {}

  /// Begins the next copy if one can begin, and returns when it will end. To be called again at that time, after
  /// `Ended`, and whenever an order came, a frame began to wait, or the last frame in flight ended.
  std::optional<Instant> Next(Instant now, ElasticHolding& h) {
    if (h.copy != ElasticHolding::Copy::kNone) return std::nullopt;
    h.resident = std::min(h.resident, h.wants);  // buffers that were released need no copy
    if (h.resident > h.here) return h.pinned > 0 ? std::nullopt : std::optional(Evict(now, h));
    if (h.waiting == 0 || h.resident >= h.Useful()) return std::nullopt;
    return Restore(now, h, h.Useful() - h.resident);
  }
  /// The copy that was begun has ended.
  static void Ended(ElasticHolding& h) {
    if (h.copy == ElasticHolding::Copy::kOut) h.resident -= std::min(h.moving, h.resident);
    h.moving = 0;
    h.copy = ElasticHolding::Copy::kNone;
  }
  /// For one frame, copies in and out again the buffers that do not fit. Returns when that will have ended.
  Instant Pass(Instant now, ElasticHolding& h) {
    const double slots = h.Spilled();
    h.copied_in += slots;
    h.copied_out += slots * h.dirty;
    h.evictions += h.Spilled();
    return link_.Copy(now, slots * (1 + h.dirty));
  }
  /// All processes of the vGPU have ended; their memory is released.
  static void Release(ElasticHolding& h) {
    h.resident = h.moving = h.pinned = h.waiting = h.away = 0;
    h.copy = ElasticHolding::Copy::kNone;
  }

  [[nodiscard]] const CopyLink& link() const { return link_; }

 private:
  Instant Evict(Instant now, ElasticHolding& h) {
    const std::uint32_t slots = h.resident - h.here;
    const std::uint32_t lost = h.resident - std::min(h.resident, h.held);  // no longer held: not part of a switch
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
