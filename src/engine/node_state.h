// SPDX-License-Identifier: Apache-2.0
// The engine's own records of devices and vGPUs. Private to src/engine.
#pragma once

#include <algorithm>

#include "core/memory/others_memory.h"
#include "core/memory/slot_turns.h"
#include "engine/node_engine.h"

namespace weir::engine {

/// How often a capped vGPU's bucket is looked at while it is active, where the policy itself needs no look.
inline constexpr Duration kCapTick = milliseconds(1);

constexpr std::uint32_t SlotsOf(Bytes bytes) {
  return static_cast<std::uint32_t>((bytes.count + kSlotBytes.count - 1) / kSlotBytes.count);
}

/// The longest interval between frames that keeps the promise; zero: none was given.
inline Duration PromisedInterval(const VgpuSettings& settings) {
  const double rate = settings.promised_rate();
  const Duration by_rate = rate > 0 ? FromSeconds(1.0 / rate) : Duration{0};
  if (settings.latency == Duration{0} || by_rate == Duration{0}) return std::max(settings.latency, by_rate);
  return std::min(settings.latency, by_rate);
}

/// GPU time at the last eleven tenths of a second: enough to say what was used in the last whole second.
class UseMarks {
 public:
  void Mark(Instant now, Duration used) {
    const std::int64_t index = NsOf(now) / kStep.count();
    if (index == last_) return;
    // Time that was not looked at counts as idle until now: the use is shown when it is known.
    const std::int64_t first = last_ < 0 || index - last_ > kMarks ? index - kMarks + 1 : last_ + 1;
    for (std::int64_t i = first; i < index; ++i) At(i) = last_ < 0 ? used : last_used_;
    At(index) = used;
    last_ = index;
    last_used_ = used;
  }
  /// GPU time per wall time over the last second (1.0 … 1.1 s).
  [[nodiscard]] double Rate(Instant now, Duration used) const {
    if (last_ < 0) return 0;
    const std::int64_t index = NsOf(now) / kStep.count();
    if (index - last_ >= kMarks) return 0;
    const std::int64_t from = index - kMarks + 1;
    const Duration span = now - InstantFromNs(from * kStep.count());
    return SecondsOf(used - marks_[PlaceOf(from)]) / SecondsOf(span);
  }

 private:
  static constexpr Duration kStep = milliseconds(100);
  static constexpr std::int64_t kMarks = 11;
  /// Indices before the node's first second are negative; their place in the ring is not.
  static std::size_t PlaceOf(std::int64_t index) {
    return static_cast<std::size_t>((index % kMarks + kMarks) % kMarks);
  }
  Duration& At(std::int64_t index) { return marks_[PlaceOf(index)]; }
  std::array<Duration, kMarks> marks_{};
  std::int64_t last_ = -1;
  Duration last_used_{};
};

struct NodeEngine::Vgpu_ {
  VgpuId id;
  std::string name;
  VgpuSettings settings;
  Device_* device = nullptr;
  std::size_t index = 0;  // in its device's views
  std::vector<ProcessId> processes;
  std::vector<ProcessId> drawing;  // of these
  [[nodiscard]] bool Draws() const { return processes.empty() || !drawing.empty(); }
  bool paused = false;

  // What the region holds as far as we know.
  bool published = false;
  proto::GateMode mode = proto::GateMode::kOpen;
  Duration frame_interval{};
  core::FrameSync sync = core::FrameSync::kAuto;
  std::int64_t expected_allowance_ns = 0;
  Instant sampled_at{};
  Instant last_progress{};  // last time it was charged something, or had no reason to be

  // Charges and the driver's account (docs/accounting.md)
  Duration settled{};                              // `used` at the last reading
  bool listed = false;                             // a process of it has had a counter
  double reported_lately = 0, charged_lately = 0;  // ns up to the last reading; older ones count less
  std::vector<ProcessId> ended;                    // since the last reading
  std::size_t ended_beyond = 0;                    // further ones, beyond kEndedMax
  static constexpr std::size_t kEndedMax = 256;
  void HasEnded(ProcessId process) {
    if (ended.size() < kEndedMax)
      ended.push_back(process);
    else
      ++ended_beyond;
  }

  Share published_cap;
  MemoryGrant memory;   // likewise
  Duration last_gpu{};  // of the last frame
  core::CapBucket cap_bucket;
  Duration cap_level{};  // of the bucket, at the last decision
  UseMarks marks;
  std::uint64_t records_lost = 0;
  std::uint64_t records_bad = 0;
  std::uint64_t samples_bad = 0;

  // Elastic memory
  MemorySample memory_sample;  // the last
  bool memory_fresh = false;   // it came with the present event
  bool memory_there = false;   // it came with the last one that had samples: its executor is there
  Bytes memory_must{};         // the most that one command needed at once, of late
  Instant memory_must_at{};
  Instant memory_owes_since{};  // an order is not carried out; {}: none is
  Instant memory_asks_at{};     // not sooner again
  core::BalloonNote::Kind memory_refused = core::BalloonNote::Kind::kGranted;  // for what reason, last
  MemorySample parts_said;                                                     // whose launches in parts were told of
  Instant parts_say_at{};                                                      // not sooner again

  core::FrameStats frames;  // last: large, and no part of a look

  core::VgpuView& View() const;
};

/// Who holds which slots, and whose they are now.
struct NodeEngine::Memory_ {
  core::Balloon balloon;
  core::SlotTurns turns;
  std::vector<core::MemoryView> views;  // these three: scratch
  std::vector<core::SlotNeed> needs;
  std::vector<core::BalloonNote> said;
  std::vector<VgpuId> changed;
};

/// The views lie densely, so that policies walk one array; a view's slot stays the same while its index may change.
struct NodeEngine::Device_ {
  DeviceSpec spec;
  std::string policy_name;
  core::PolicyParams params;
  std::unique_ptr<core::Policy> policy;
  std::unique_ptr<core::Oversell> sales;  // never null
  std::vector<core::OversellNote> said;   // scratch
  std::unique_ptr<Memory_> memory;        // null: not elastic
  SetMemory memory_set;                   // how it was made so
  core::OthersMemory others;              // whose slots are not shared out
  core::UseReconciler reconciler;
  std::vector<core::VgpuView> views;
  std::vector<Vgpu_*> owners;  // of the views, in the same order
  std::vector<core::Verdict> verdicts;
  std::vector<std::uint32_t> free_slots;
  Instant busy_until{};        // when the work that was charged should be done, at the earliest
  Duration gone{};             // charged to vGPUs that were removed
  std::int64_t rated_at = -1;  // tenth of a second for which the views hold the rates; FramesDone renews them, too

  void Place(Vgpu_& vgpu) {
    const auto fresh = static_cast<std::uint32_t>(views.size());
    const std::uint32_t slot = free_slots.empty() ? fresh : free_slots.back();
    if (!free_slots.empty()) free_slots.pop_back();
    vgpu.index = views.size();
    owners.push_back(&vgpu);
    views.push_back({.id = vgpu.id,
                     .slot = slot,
                     .weight = vgpu.settings.weight,
                     .cap = sales->CapOf(vgpu.id),
                     .promised = PromisedInterval(vgpu.settings)});
  }
  void Drop(const Vgpu_& vgpu) {
    const std::size_t hole = vgpu.index;
    gone += views[hole].used;
    free_slots.push_back(views[hole].slot);
    views[hole] = views.back();
    owners[hole] = owners.back();
    owners[hole]->index = hole;
    views.pop_back();
    owners.pop_back();
  }
  /// The next one in the order of the views; null: it was the last.
  [[nodiscard]] Vgpu_* Behind(const Vgpu_& vgpu) const {
    return vgpu.index + 1 < owners.size() ? owners[vgpu.index + 1] : nullptr;
  }
  /// `charge` is negative where a reservation was more than the work took.
  void NoteCharge(Instant now, Duration charge) {
    if (charge > Duration{0}) busy_until = std::max(busy_until, now);
    busy_until = std::min(busy_until + charge, now + kChargedWorkMax);
  }
  void Mark(Instant now) {
    const std::int64_t tenth = NsOf(now) / Duration{milliseconds(100)}.count();
    for (std::size_t i = 0; i < owners.size(); ++i) {
      owners[i]->marks.Mark(now, views[i].used);
      if (tenth != rated_at) views[i].rate = owners[i]->frames.Rate(now);
    }
    rated_at = tenth;
  }
};

inline core::VgpuView& NodeEngine::Vgpu_::View() const { return device->views[index]; }

}  // namespace weir::engine
