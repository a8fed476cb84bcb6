// SPDX-License-Identifier: Apache-2.0
// A scheduling policy is a pure object: it is shown every vGPU of one device and says what each may spend until it
// wants to look again. The daemon and the simulator run the same objects.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace weir::core {

inline constexpr std::uint32_t kWeightMax = 10'000;

/// What a policy sees of one vGPU. `slot` is a small dense index, stable while the vGPU lives and reused afterwards
/// (with another `id`), so that a policy can keep its own state in a vector.
struct VgpuView {
  VgpuId id;
  std::uint32_t slot = 0;
  std::uint32_t weight = 1;     // 1 … kWeightMax
  Share cap = Share::Whole();   // upper limit of GPU time
  Duration used{};              // GPU time charged so far: settled, plus reserved for what is in flight
  std::uint32_t waiting = 0;    // threads waiting at the gate
  std::uint32_t in_flight = 0;  // threads between the gate and the end of their present
  bool stuck = false;           // there may be some, but nothing has been charged for long: both are 0
  Instant last_active{};        // when one of the two was last seen above zero
  Duration frame_gpu{};         // mean GPU time of its recent frames
  Duration recent_gpu{};        // the least of its last two frames': what they cost now, but for one that stands out
  Duration frame_think{};       // mean time its program takes between two presents, the wait not counted
  Duration least_think{};       // the least of it in the last seconds: what it takes when nothing disturbs it
  Duration promised{};          // interval between its frames that it was promised; zero: none
  double rate = 0;              // frames/s of its fastest loop (window, queue) in the last second
  bool attached = false;        // at least one process
  bool draws = true;            // one of them draws; of one that only computes, a rate nobody promised means nothing
  bool held = false;            // by its cap: it can't go on now, whatever the policy says
  // Where the device is sold
  Share ceiling{};              // what its cap may grow to; not above its cap: nothing is lent to it
  bool share_promised = false;  // its promise is its cap, and no rate
};

enum class Admission : std::uint8_t {
  kOpen,   // account, never wait
  kGated,  // wait while the allowance is not positive
};

/// How paced frames are synchronised with the device; the values are those of proto::FrameSync.
enum class FrameSync : std::uint8_t { kAuto = 0, kNone = 1, kFlush = 2, kFence = 3, kFinish = 4 };

/// What a policy says about one vGPU. `allowance` is what it may spend from now on; negative is debt.
struct Verdict {
  Admission admission = Admission::kOpen;
  Duration allowance{};
  Duration frame_interval{};  // pace one frame per interval; zero: no pacing
  FrameSync sync = FrameSync::kAuto;
  bool held = false;  // by its cap; of policies that keep caps
};

struct PolicyInput {
  Instant now;
  std::span<const VgpuView> vgpus;  // of one device, in any order
};

/// `Instant::max()`: nothing to do until something happens at a gate.
inline constexpr Instant kNever = Instant::max();

class Policy {
 public:
  virtual ~Policy() = default;
  /// Writes one verdict for each view (`verdicts` has the same length and order) and returns when to look again.
  /// Total: any input gives a safe answer. Never allocates once every slot has been seen.
  virtual Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) = 0;
  /// Whether it holds vGPUs to their caps itself. For others it is done for them.
  [[nodiscard]] virtual bool keeps_caps() const { return false; }
};

/// Competes for the device right now: something waits, something runs, or something did a moment ago.
constexpr bool Competes(const VgpuView& vgpu, Instant now, Duration grace) {
  return vgpu.attached && (vgpu.waiting > 0 || vgpu.in_flight > 0 || now - vgpu.last_active < grace);
}

/// State that a policy keeps per vGPU; starts afresh when another vGPU takes over a slot.
template <typename State>
class SlotStates {
 public:
  /// `fresh` is set when this is the first look at this vGPU.
  State& At(const VgpuView& vgpu, bool& fresh) {
    if (vgpu.slot >= entries_.size()) entries_.resize(vgpu.slot + 1);
    Entry& entry = entries_[vgpu.slot];
    fresh = entry.owner != vgpu.id;
    if (fresh) entry = Entry{vgpu.id, State{}};
    return entry.state;
  }
  /// Of a vGPU for which At was called in the same decision.
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
