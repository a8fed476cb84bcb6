// SPDX-License-Identifier: Apache-2.0
#include "sim/compared/borrowed_virtual_time.h"

#include <algorithm>
#include <limits>

#include "sim/compared/wants.h"

namespace weir::sim {
namespace {

using core::PolicyInput;
using core::VgpuView;

struct Clock {
  double v = 0;  // actual virtual time: GPU nanoseconds used, divided by the weight
  Duration used{};
  bool runnable = false;
};

/// The runnable vGPU with the least virtual time runs, until it is `ahead` of GPU time ahead of another one. One that
/// becomes runnable starts at the scheduler's virtual time, the least of the runnable ones: nothing is saved up.
class BorrowedVirtualTime final : public core::Policy {
 public:
  explicit BorrowedVirtualTime(const BorrowedVirtualTimeParams& params) : ahead_(params.ahead), tick_(params.tick) {}

  Instant Decide(const PolicyInput& input, std::span<core::Verdict> verdicts) override {
    Charge(input);
    const VgpuView* runs = Choose(input);
    bool awake = false;
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      awake |= Competes(vgpu, input.now, kAwakeFor);
      Duration allowance = runs == nullptr ? ahead_ : Duration{0};
      if (&vgpu == runs) allowance = Lead(input, vgpu);
      verdicts[i] = {.admission = core::Admission::kGated, .allowance = allowance, .frees_device = vgpu.in_flight > 0};
    }
    return awake ? input.now + tick_ : core::kNever;
  }

 private:
  void Charge(const PolicyInput& input) {
    double least = std::numeric_limits<double>::max();
    for (const VgpuView& vgpu : input.vgpus) {
      bool fresh = false;
      Clock& clock = clocks_.At(vgpu, fresh);
      const bool runnable = Wants(vgpu);
      if (fresh || (runnable && !clock.runnable)) clock.v = std::max(clock.v, system_);
      if (!fresh) clock.v += static_cast<double>((vgpu.used - clock.used).count()) / vgpu.weight;
      clock.used = vgpu.used;
      clock.runnable = runnable;
      if (runnable) least = std::min(least, clock.v);
    }
    if (least < std::numeric_limits<double>::max()) system_ = std::max(system_, least);
  }

  /// GPU time until the vGPU is `ahead` ahead of the next.
  Duration Lead(const PolicyInput& input, const VgpuView& vgpu) {
    double next = std::numeric_limits<double>::max();
    for (const VgpuView& other : input.vgpus)
      if (&other != &vgpu && Wants(other)) next = std::min(next, clocks_.Seen(other).v);
    if (next == std::numeric_limits<double>::max()) return ahead_;
    return ahead_ + Duration{static_cast<std::int64_t>((next - clocks_.Seen(vgpu).v) * vgpu.weight)};
  }

  /// Null: none is runnable.
  const VgpuView* Choose(const PolicyInput& input) {
    const VgpuView* least = nullptr;
    for (const VgpuView& vgpu : input.vgpus) {
      if (!Wants(vgpu)) continue;
      if (vgpu.id == runs_ && Lead(input, vgpu) > Duration{0}) return &vgpu;
      if (least == nullptr || clocks_.Seen(vgpu).v < clocks_.Seen(*least).v) least = &vgpu;
    }
    runs_ = least != nullptr ? least->id : VgpuId{};
    return least;
  }

  const Duration ahead_;
  const Duration tick_;
  VgpuId runs_;
  double system_ = 0;  // scheduler virtual time
  core::SlotStates<Clock> clocks_;
};

}  // namespace

std::unique_ptr<core::Policy> MakeBorrowedVirtualTime(const BorrowedVirtualTimeParams& params) {
  return std::make_unique<BorrowedVirtualTime>(params);
}

}  // namespace weir::sim
