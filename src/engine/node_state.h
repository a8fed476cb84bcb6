// SPDX-License-Identifier: Apache-2.0
// The engine's own records of devices and vGPUs. Private to src/engine.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/memory/others_memory.h"
#include "core/memory/slot_turns.h"
#include "core/oversubscribe/promised_load.h"
#include "core/oversubscribe/rate_caps.h"
#include "core/schedule/think_time.h"
#include "engine/node_engine.h"

namespace weir::engine {

/// Interval at which an active capped vGPU's bucket is checked under a policy that needs no earlier decision.
inline constexpr Duration kCapTick = milliseconds(1);

/// `error` with the name of its vGPU before the message.
inline Error Of(const std::string& vgpu, Error error) {
  error.message = "vGPU '" + vgpu + "': " + error.message;
  return error;
}

constexpr std::uint32_t SlotsOf(Bytes bytes) {
  return static_cast<std::uint32_t>((bytes.count + kSlotBytes.count - 1) / kSlotBytes.count);
}

/// The longest interval between frames that keeps the promise; zero: no promise.
inline Duration PromisedInterval(const VgpuSettings& settings) {
  const double rate = settings.promised_rate();
  const Duration by_rate = rate > 0 ? FromSeconds(1.0 / rate) : Duration{0};
  if (settings.latency == Duration{0} || by_rate == Duration{0}) return std::max(settings.latency, by_rate);
  return std::min(settings.latency, by_rate);
}

/// The GPU time that was charged at each of the last eleven tenths of a second. The use in the last second follows from
/// these marks.
class UseMarks {
 public:
  void Mark(Instant now, Duration used) {
    const std::int64_t index = NsOf(now) / kStep.count();
    if (index == last_) return;
    // Time without marks counts as idle: GPU time counts as used when it becomes known.
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
  /// The position of a tenth in the ring. Tenths before the node's first second have negative indices.
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
  std::size_t place = 0;  // in `all` of its device
  std::size_t index = 0;  // in the views of its device
  [[nodiscard]] bool resting() const;
  std::vector<ProcessId> processes;
  std::vector<ProcessId> drawing;  // the processes among these that draw
  [[nodiscard]] bool Draws() const { return processes.empty() || !drawing.empty(); }
  bool paused = false;

  // Content of the region, as last written and sampled.
  bool published = false;
  proto::GateMode mode = proto::GateMode::kOpen;
  Duration frame_interval{};
  core::FrameSync sync = core::FrameSync::kAuto;
  core::FrameStart start = core::FrameStart::kEarly;
  bool ring_at_end = false;
  bool threads_wait = false;  // and would go on with an allowance; also while it is stuck, when its view shows none
  std::int64_t expected_allowance_ns = 0;
  Instant sampled_at{};
  Instant last_progress{};  // when it was last charged for work that began or ended, or was idle or had no allowance

  // Charges and the driver's account (docs/accounting.md)
  Duration settled{};                              // `used` at the last reading, without work in flight
  Instant settled_at{};                            // {}: there was no reading
  bool listed = false;                             // a process of it has had a counter in the account
  std::int64_t reserved_ns = 0;                    // reserved for work in flight, in the unit of reports
  std::int64_t reserved_before_ns = 0;             // the same at the last reading
  Duration reported_before{};                      // reports up to the last reading, reservations included
  Duration begun{};                                // what the account had counted of work in flight at that reading
  double reported_lately = 0, counted_lately = 0;  // ns of ended work, with older readings weighted less
  double scale = 1;                                // what the account counts for each reported second
  /// Converts what agents report into GPU time that is charged.
  [[nodiscard]] Duration GpuTimeOf(std::int64_t reports) const { return Duration{Scaled(reports, scale)}; }
  /// Converse of GpuTimeOf: an allowance in the unit in which agents spend it.
  [[nodiscard]] std::int64_t ReportOf(Duration gpu_time) const { return Scaled(gpu_time.count(), 1 / scale); }
  /// Rounds away from zero, so that an allowance stays above zero and a debt below.
  static std::int64_t Scaled(std::int64_t ns, double by) {
    if (by == 1) return ns;
    constexpr double kMost = 4e18;
    const double scaled = std::clamp(static_cast<double>(ns) * by, -kMost, kMost);
    return static_cast<std::int64_t>(ns > 0 ? std::ceil(scaled) : std::floor(scaled));
  }
  Duration used_most{};  // the highest value of `used` before it last fell
  /// Called before `used` falls: by a correction, or because a reservation exceeded the work's time.
  void KeepMost() { used_most = UsedMost(); }
  /// The highest value that `used` has had. For figures that must not fall.
  [[nodiscard]] Duration UsedMost() const { return std::max(used_most, View().used); }
  std::vector<ProcessId> ended;  // processes that ended since the last reading
  std::size_t ended_beyond = 0;  // number of further ones, beyond kEndedMax
  static constexpr std::size_t kEndedMax = 256;
  void HasEnded(ProcessId process) {
    if (ended.size() < kEndedMax)
      ended.push_back(process);
    else
      ++ended_beyond;
  }

  Share published_cap;
  MemoryGrant memory;   // as last published
  Duration last_gpu{};  // of the last frame
  core::ThinkTime think;
  core::LoopCosts costs;
  double need = 0;                         // part of the device that its promise needs, as of the last check
  bool unknown_need = false;               // a rate is promised whose cost is not known
  double rate_need = 0, rate_granted = 0;  // core::RateClaim::need and granted, kept for the next call
  Share rate_cap = Share::Whole();         // the cap that its promise implies
  bool rate_capped = false;                // `rate_cap` is in its view
  core::CapBucket cap_bucket;
  Duration cap_level{};  // of the bucket, at the last decision
  UseMarks marks;
  Duration used_at_rest{};  // GPU time charged until it began to rest
  std::uint64_t records_lost = 0;
  std::uint64_t records_bad = 0;
  std::uint64_t samples_bad = 0;

  // Elastic memory
  MemorySample memory_sample;      // the last sample
  std::uint32_t contents_max = 0;  // slots that its contents can take
  bool memory_fresh = false;       // that sample came with the present event
  bool memory_there = false;       // that sample came with the last GatesSampled: the executor exists
  Bytes memory_must{};             // the most that one recent command needed at once
  Instant memory_must_at{};
  Instant memory_owes_since{};  // when the wait for a memory order began; {}: all orders are carried out
  Instant memory_asks_at{};     // earliest time of the next request
  core::BalloonNote::Kind memory_refused = core::BalloonNote::Kind::kGranted;  // reason of the last refusal
  proto::ExecutorStatistics parts_said;  // the statistics up to which launches in parts were reported
  Instant parts_say_at{};                // earliest time of the next such report

  core::FrameStats frames;  // last, since it is large and not used in decisions

  core::VgpuView& View() const;
};

/// Elastic memory of a device: holders and owners of its slots.
struct NodeEngine::Memory_ {
  core::Balloon balloon;
  core::SlotTurns turns;
  std::vector<core::MemoryView> views;  // scratch, as are the next three
  std::vector<core::SlotNeed> needs;
  std::vector<core::BalloonNote> said;
  std::vector<VgpuId> changed;
};

/// One device with its vGPUs. The views are contiguous, so that policies walk one array. VgpuView::slot is stable,
/// while the index of a view may change. Decisions are about active vGPUs only, so that resting ones cost nothing
/// (node_rest.cc).
struct NodeEngine::Device_ {
  DeviceSpec spec;
  const core::PolicyEntry* entry = nullptr;  // of `policy`
  core::PolicyParams params;
  std::unique_ptr<core::Policy> policy;
  std::unique_ptr<core::Oversell> sales;     // never null
  std::vector<core::OversellNote> said;      // scratch
  core::FitWatch fit;                        // of promised rates
  double promised = 0;                       // sum of the vGPUs' needs, as of the last check
  std::size_t promised_unknown = 0;          // vGPUs whose need is not known
  Instant promises_at{};                     // time of the next check; {}: promises have changed
  std::vector<Vgpu_*> promising;             // vGPUs with a promised rate or latency, as of the last check of all
  std::vector<core::RateClaim> rate_claims;  // as of the last check
  Instant rate_caps_at{};                    // time of the next check of the caps that promised rates imply
  bool rates_capped = false;                 // a view has such a cap
  std::unique_ptr<Memory_> memory;           // null: not elastic
  SetMemory memory_set;                      // the event that made it elastic
  core::OthersMemory others;                 // slots that are not available to vGPUs
  core::UseReconciler reconciler;
  std::vector<Vgpu_*> all;            // by place
  std::vector<core::VgpuView> views;  // of the active vGPUs, by place; then of those that rest, in any order
  std::vector<Vgpu_*> owners;         // of the views, in the same order
  std::size_t active = 0;             // number of active vGPUs
  core::RestingVgpus rest;            // without its views
  std::vector<Vgpu_*> woken;          // scratch: resting vGPUs to be made active
  std::vector<core::VgpuView> moved;  // scratch, as is the next one
  std::vector<Vgpu_*> moved_owners;
  std::vector<core::Verdict> verdicts;  // about the active vGPUs
  std::vector<std::uint32_t> free_slots;
  Instant busy_until{};        // earliest expected end of the charged work
  Duration gone{};             // charged to vGPUs that were removed
  Duration gone_most{};        // likewise, the highest values of their charges
  Duration rest_used{};        // sum of `used_at_rest` of the vGPUs that rest
  UseMarks marks;              // of all vGPUs, including those that were removed
  Duration marked_used{};      // GPU time at the last of these marks
  std::int64_t rated_at = -1;  // tenth of a second in which Mark last set marks and rates; -1: a new vGPU has none yet

  [[nodiscard]] std::span<core::VgpuView> Active() { return std::span(views).first(active); }
  [[nodiscard]] core::RestingVgpus Resting() const;
  /// Adds a new vGPU, which is active.
  void Place(Vgpu_& vgpu);
  /// Removes a vGPU.
  void Drop(const Vgpu_& vgpu);
  /// Makes a vGPU active, if it rests.
  void Wake(Instant now, Vgpu_& vgpu, Actions& actions);
  void WakeAll(Instant now, Actions& actions);
  /// Makes the vGPUs in `woken` active.
  void WakeThese(Instant now, Actions& actions);
  /// Lets active vGPUs rest that have been idle for long. To be called after a decision about all active vGPUs.
  void LetRest(Instant now, Actions& actions);
  /// The next active vGPU in the order of the views; null after the last one.
  [[nodiscard]] Vgpu_* Behind(const Vgpu_& vgpu) const {
    return vgpu.index + 1 < active ? owners[vgpu.index + 1] : nullptr;
  }
  /// Updates `busy_until`. `charge` is negative if a reservation exceeded the actual time of the work.
  void NoteCharge(Instant now, Duration charge) {
    if (charge > Duration{0}) busy_until = std::max(busy_until, now);
    busy_until = std::min(busy_until + charge, now + kChargedWorkMax);
  }
  /// Marks the use of the active vGPUs, and updates their rates, once in a tenth of a second. Returns whether it did.
  bool Mark(Instant now) {
    const std::int64_t tenth = NsOf(now) / Duration{milliseconds(100)}.count();
    if (tenth == rated_at) return false;
    Duration used = gone + rest_used;
    for (std::size_t i = 0; i < active; ++i) {
      owners[i]->marks.Mark(now, views[i].used);
      views[i].rate = owners[i]->frames.Rate(now);
      used += views[i].used;
    }
    marks.Mark(now, used);
    marked_used = used;
    rated_at = tenth;
    return true;
  }
  /// GPU time that other vGPUs used in the last second, as of the last marks.
  [[nodiscard]] Duration OthersUse(Instant now, const Vgpu_& vgpu) const {
    const double used = marks.Rate(now, marked_used) - vgpu.marks.Rate(now, vgpu.View().used);
    return FromSeconds(std::clamp(used, 0.0, 1.0));
  }

 private:
  /// How long a vGPU has to be idle before it may rest.
  [[nodiscard]] Duration RestsAfter(const core::VgpuView& view) const;
  [[nodiscard]] bool MayRest(const core::VgpuView& view, Instant now) const;
  /// Adds a vGPU to the sums of `rest`, or subtracts it if not `more`.
  void CountResting(const core::VgpuView& view, bool more);
  void MoveTo(std::size_t index, const core::VgpuView& view, Vgpu_* owner);
  void Swap(std::size_t a, std::size_t b);
  void SortIn();
};

inline core::VgpuView& NodeEngine::Vgpu_::View() const { return device->views[index]; }
inline bool NodeEngine::Vgpu_::resting() const { return index >= device->active; }

inline MemoryGrant NodeEngine::MemoryOf(const Vgpu_& vgpu) {
  return vgpu.device->memory ? ElasticMemoryOf(vgpu) : MemoryGrant{.limit = SlotsOf(vgpu.settings.memory_max)};
}

}  // namespace weir::engine
