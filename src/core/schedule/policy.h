// SPDX-License-Identifier: Apache-2.0
// A scheduling policy is a pure object: it gets a view of every active vGPU of one device, and returns what each of
// them may spend until the next decision. The daemon and the simulator run the same objects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace weir::core {

inline constexpr std::uint32_t kWeightMax = 10'000;

/// What a policy knows of one vGPU. `slot` is a small dense index, stable during the vGPU's lifetime and reused
/// afterwards (with another `id`), so that a policy can keep its own state in a vector.
struct VgpuView {
  VgpuId id;
  std::uint32_t slot = 0;
  std::uint32_t weight = 1;     // 1 … kWeightMax
  Share cap = Share::Whole();   // upper limit of GPU time
  Duration used{};              // GPU time charged so far: settled, plus reserved for what is in flight
  Duration reported{};          // GPU time as the programs report it, before the driver's account corrects it
  std::uint32_t waiting = 0;    // threads waiting at the gate
  std::uint32_t in_flight = 0;  // threads between the gate and the end of their present
  Duration reserved{};          // predicted GPU time of the work that has passed and whose end is not known
  bool stuck = false;           // no work has begun or ended for long; `waiting` and `in_flight` are then given as 0
  Instant last_active{};        // when `waiting` or `in_flight` was last above zero
  Duration frame_gpu{};         // mean GPU time of its recent frames
  Duration recent_gpu{};     // the lower GPU time of its last two frames: follows a change at once, ignores one outlier
  Duration frame_think{};    // mean time that its program takes between two presents, without waits
  Duration least_think{};    // the least frame_think of the last seconds: what remains when no other vGPU disturbs it
  bool blocks = false;       // its presents wait for something else than the device, such as a vertical blank
  Duration loops_gpu{};      // sum of the GPU times of one frame of each of its loops; zero: not known yet
  Duration promised{};       // promised interval between its frames; zero: no promise
  double rate = 0;           // frames/s of its fastest loop (window, queue) in the last second
  bool attached = false;     // it has at least one process
  bool draws = true;         // a process of it draws; default rates do not apply to a vGPU that only computes
  bool held = false;         // its cap holds it back now, whatever the policy decides
  std::uint64_t frames = 0;  // frames and batches of tasks that ended so far
  std::uint64_t broken_frames = 0;  // of these: late because they waited for others
  // For a device with overselling
  Share ceiling{};              // limit up to which its cap may grow; if not above the cap, it borrows no GPU time
  bool share_promised = false;  // it was promised its cap, not a rate
};

enum class Admission : std::uint8_t {
  kOpen,   // account, never wait
  kGated,  // wait while the allowance is not positive
};

/// How paced frames are synchronised with the device; the values are those of proto::FrameSync.
enum class FrameSync : std::uint8_t { kAuto = 0, kNone = 1, kFlush = 2, kFence = 3, kFinish = 4 };

/// Where a paced program waits: before its present, or before it begins the frame, so that it reads its input later;
/// the values are those of proto::FrameStart.
enum class FrameStart : std::uint8_t { kEarly = 0, kLate = 1 };

/// What a policy decides for one vGPU. `allowance` is what it may spend from now on; negative is debt.
struct Verdict {
  Admission admission = Admission::kOpen;
  Duration allowance{};
  Duration frame_interval{};  // pace one frame per interval; zero: no pacing
  FrameSync sync = FrameSync::kAuto;
  FrameStart start = FrameStart::kEarly;
  bool held = false;  // held by its cap; set by policies that enforce caps
  // The vGPU has work in flight, and its program will not submit again at once. The end of that work frees the device
  // for other vGPUs. Its agents should therefore ring the doorbell at that end: the next decision would notice it
  // later.
  bool frees_device = false;
};

/// The vGPUs of the device that rest: they have no process, or have been idle for longer than the policy remembers, and
/// none of them is held by its cap. A decision has no verdict about them: each keeps the allowance of its last verdict.
/// A resting vGPU becomes active before the next decision once it wants the device, is charged, or its settings or
/// processes change.
struct RestingVgpus {
  std::span<const VgpuView> views;  // in any order; to be read seldom, since a walk costs time for each resting vGPU
  std::uint64_t weights = 0;        // sum of their weights
  std::uint64_t cap_weights = 0;    // sum of their CapWeight
  std::uint64_t changes = 0;        // how often the set has changed
  std::size_t attached = 0;         // how many have a process
};

struct PolicyInput {
  Instant now;
  std::span<const VgpuView> vgpus;  // the active ones of one device, in any order
  Duration late{};                  // how much later than asked for decisions come (late_looks.h)
  RestingVgpus resting{};
};

/// The least time between two decisions. It bounds the work of the daemon when a tenant rings the doorbell all the
/// time.
inline constexpr Duration kLookSpacing = microseconds(200);

/// `Instant::max()`: no further decision is needed until an event at a gate.
inline constexpr Instant kNever = Instant::max();

/// How long most policies remember what an idle vGPU did (Policy::remembers).
inline constexpr Duration kRemembered = seconds(1);

class Policy {
 public:
  virtual ~Policy() = default;
  /// Writes one verdict for each active vGPU (`verdicts` has the length and order of `vgpus`) and returns the time of
  /// the next decision. Total: any input gives a safe answer. Does not allocate once every slot has been seen.
  virtual Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) = 0;
  /// A vGPU that has been idle for longer than this makes no difference to the verdicts about others.
  [[nodiscard]] virtual Duration remembers() const { return kRemembered; }
  /// Whether the policy enforces caps itself. Otherwise the engine enforces them.
  [[nodiscard]] virtual bool keeps_caps() const { return false; }
  /// Whether a promised rate implies a cap (oversubscribe/rate_caps.h). The engine computes it, in the views.
  [[nodiscard]] virtual bool caps_rates() const { return false; }
};

/// The weight of a vGPU under a policy that divides time by caps.
constexpr std::uint32_t CapWeight(const VgpuView& vgpu) {
  return std::max<std::uint32_t>(vgpu.cap.ppm / (Share::kWholePpm / kWeightMax), 1);
}

/// Whether the vGPU competes for the device now: a thread waits, a frame is in flight, or one was moments ago.
constexpr bool Competes(const VgpuView& vgpu, Instant now, Duration grace) {
  return vgpu.attached && (vgpu.waiting > 0 || vgpu.in_flight > 0 || now - vgpu.last_active < grace);
}

/// State that a policy keeps per vGPU; reset when another vGPU reuses the slot.
template <typename State>
class SlotStates {
 public:
  /// Sets `fresh` at the first call for this vGPU.
  State& At(const VgpuView& vgpu, bool& fresh) {
    if (vgpu.slot >= entries_.size()) entries_.resize(vgpu.slot + 1);
    Entry& entry = entries_[vgpu.slot];
    fresh = entry.owner != vgpu.id;
    if (fresh) entry = Entry{vgpu.id, State{}};
    return entry.state;
  }
  /// State of a vGPU for which At was called in the same decision.
  State& Seen(const VgpuView& vgpu) { return entries_[vgpu.slot].state; }
  const State& Seen(const VgpuView& vgpu) const { return entries_[vgpu.slot].state; }

 private:
  struct Entry {
    VgpuId owner;
    State state{};
  };
  std::vector<Entry> entries_;
};

}  // namespace weir::core
