// SPDX-License-Identifier: Apache-2.0
#include "sim/compared/utilization_slices.h"

#include <algorithm>

#include "sim/compared/wants.h"

namespace weir::sim {
namespace {

using core::PolicyInput;
using core::VgpuView;

/// One vGPU runs, until its slice of wall time has passed or it has no work; the next in the ring that has work runs
/// then. Work that has begun is not preempted, and what the others wait for it is not made up for.
class UtilizationSlices final : public core::Policy {
 public:
  explicit UtilizationSlices(const UtilizationSlicesParams& params) : params_(params) {}

  Instant Decide(const PolicyInput& input, std::span<core::Verdict> verdicts) override {
    const VgpuView* runs = Running(input);
    if (runs == nullptr || !Wants(*runs) || input.now >= ends_at_) runs = SwitchOn(input, runs);
    bool awake = false;
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      awake |= Competes(vgpu, input.now, kAwakeFor);
      const bool passes = runs == nullptr || &vgpu == runs;
      verdicts[i] = {.admission = core::Admission::kGated,
                     .allowance = passes ? kFree : Duration{0},
                     .frees_device = vgpu.in_flight > 0};
    }
    return awake ? std::min(std::max(ends_at_, input.now + core::kLookSpacing), input.now + params_.tick)
                 : core::kNever;
  }

 private:
  const VgpuView* Running(const PolicyInput& input) const {
    for (const VgpuView& vgpu : input.vgpus)
      if (vgpu.id == runs_) return &vgpu;
    return nullptr;
  }

  /// The next in the ring that has work, `before` last. Null: none has.
  const VgpuView* SwitchOn(const PolicyInput& input, const VgpuView* before) {
    const VgpuView* next = nullptr;
    double weights = 0;
    for (const VgpuView& vgpu : input.vgpus) {
      if (Competes(vgpu, input.now, seconds(1))) weights += vgpu.weight;
      if (Wants(vgpu) && (next == nullptr || Distance(vgpu) < Distance(*next))) next = &vgpu;
    }
    if (next == nullptr) {
      runs_ = VgpuId{};
      return nullptr;
    }
    if (next != before || input.now >= ends_at_) {
      const double part = next->weight / std::max(weights, 1.0 * next->weight);
      ends_at_ = input.now + Duration{static_cast<std::int64_t>(static_cast<double>(params_.round.count()) * part)};
    }
    runs_ = next->id;
    slot_ = next->slot;
    return next;
  }

  /// In the ring of slots from the vGPU that ran last, which is itself the farthest.
  [[nodiscard]] std::uint32_t Distance(const VgpuView& vgpu) const { return vgpu.slot - slot_ - 1; }

  const UtilizationSlicesParams params_;
  VgpuId runs_;
  std::uint32_t slot_ = 0;
  Instant ends_at_{};
};

}  // namespace

std::unique_ptr<core::Policy> MakeUtilizationSlices(const UtilizationSlicesParams& params) {
  return std::make_unique<UtilizationSlices>(params);
}

}  // namespace weir::sim
