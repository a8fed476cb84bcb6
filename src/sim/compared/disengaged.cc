// SPDX-License-Identifier: Apache-2.0
#include "sim/compared/disengaged.h"

#include <algorithm>
#include <limits>

#include "sim/compared/wants.h"

namespace weir::sim {
namespace {

using core::PolicyInput;
using core::VgpuView;

struct Task {
  double v = 0;  // GPU nanoseconds used, divided by the weight
  Duration used{};
  bool kept_out = false;
};

/// Between two engagements every vGPU uses the device freely, but for those that are ahead of the system's virtual time
/// by a free run or more. The system's virtual time is the least of the vGPUs that have a request at an engagement; an
/// idle vGPU is brought up to it. The paper estimates use by sampling requests in each engagement, which takes the
/// device from all but one vGPU. The gate's account is exact and takes nothing, so that this is disengaged fair
/// queueing at its best; only the time of the sampling is kept. The paper's tasks have equal weights; here a vGPU is
/// far ahead when it is ahead by its part of a free run.
class Disengaged final : public core::Policy {
 public:
  explicit Disengaged(const DisengagedParams& params) : params_(params) {}

  Instant Decide(const PolicyInput& input, std::span<core::Verdict> verdicts) override {
    bool awake = false;
    for (const VgpuView& vgpu : input.vgpus) {
      bool fresh = false;
      Task& task = tasks_.At(vgpu, fresh);
      if (fresh) task.v = system_, task.used = vgpu.used;
      awake |= Competes(vgpu, input.now, std::max(kAwakeFor, params_.free_run));
    }
    if (input.now >= engages_at_) Engage(input);
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const bool kept_out = tasks_.Seen(input.vgpus[i]).kept_out;
      verdicts[i] = {.admission = core::Admission::kGated, .allowance = kept_out ? Duration{0} : kFree};
    }
    return awake ? engages_at_ : core::kNever;
  }

 private:
  void Engage(const PolicyInput& input) {
    double least = std::numeric_limits<double>::max();
    double weights = 0, active = 0;
    for (const VgpuView& vgpu : input.vgpus) {
      Task& task = tasks_.Seen(vgpu);
      task.v += static_cast<double>((vgpu.used - task.used).count()) / vgpu.weight;
      task.used = vgpu.used;
      if (!Wants(vgpu)) continue;
      weights += vgpu.weight;
      active += 1;
      least = std::min(least, task.v);
    }
    engages_at_ = input.now + params_.free_run + params_.sample * static_cast<std::int64_t>(active);
    if (active == 0) return;
    system_ = std::max(system_, least);
    // With equal weights this is the length of a free run.
    const double limit = static_cast<double>(params_.free_run.count()) * active / weights;
    for (const VgpuView& vgpu : input.vgpus) {
      Task& task = tasks_.Seen(vgpu);
      if (!Wants(vgpu)) task.v = std::max(task.v, system_);
      task.kept_out = active > 1 && task.v - system_ >= limit;
    }
  }

  const DisengagedParams params_;
  Instant engages_at_{};
  double system_ = 0;  // virtual time
  core::SlotStates<Task> tasks_;
};

}  // namespace

std::unique_ptr<core::Policy> MakeDisengaged(const DisengagedParams& params) {
  return std::make_unique<Disengaged>(params);
}

}  // namespace weir::sim
