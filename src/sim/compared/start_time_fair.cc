// SPDX-License-Identifier: Apache-2.0
#include "sim/compared/start_time_fair.h"

#include <algorithm>

#include "sim/compared/wants.h"

namespace weir::sim {
namespace {

using core::PolicyInput;
using core::VgpuView;

struct Flow {
  double tag = 0;  // start tag of its next request: the finish tag of the one before, or the virtual time at arrival
  Duration used{};
  bool backlogged = false;
  bool admitted = false;
};

/// S(request) = max(v at its arrival, F of the request before), F = S + cost / weight. The virtual time v is the start
/// tag of the request that was dispatched last, and the largest finish tag while the device is idle. The cost of a
/// request is known when it has ended; until then it is the gate's prediction.
class StartTimeFair final : public core::Policy {
 public:
  explicit StartTimeFair(const StartTimeFairParams& params)
      : depth_(static_cast<std::size_t>(params.depth)), tick_(params.tick) {}

  Instant Decide(const PolicyInput& input, std::span<core::Verdict> verdicts) override {
    Charge(input);
    std::size_t under_way = 0;
    bool awake = false;
    for (const VgpuView& vgpu : input.vgpus) {
      under_way += vgpu.in_flight;
      awake |= Competes(vgpu, input.now, kAwakeFor);
    }
    std::size_t places = depth_ > under_way ? depth_ - under_way : 0;
    while (places > 0 && Dispatch(input)) --places;
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      const bool passes = flows_.Seen(vgpu).admitted || (places > 0 && !Waits(vgpu));
      verdicts[i] = {.admission = core::Admission::kGated,
                     .allowance = passes ? kOnePasses : Duration{0},
                     .frees_device = vgpu.in_flight > 0};
    }
    return awake ? input.now + tick_ : core::kNever;
  }

 private:
  void Charge(const PolicyInput& input) {
    bool any = false;
    double finished = 0;
    for (const VgpuView& vgpu : input.vgpus) {
      bool fresh = false;
      Flow& flow = flows_.At(vgpu, fresh);
      const bool backlogged = Wants(vgpu);
      if (fresh || (backlogged && !flow.backlogged)) flow.tag = std::max(flow.tag, virtual_time_);
      if (!fresh) flow.tag += static_cast<double>((vgpu.used - flow.used).count()) / vgpu.weight;
      flow.used = vgpu.used;
      flow.backlogged = backlogged;
      flow.admitted = false;
      any |= backlogged;
      finished = std::max(finished, flow.tag);
    }
    if (!any) virtual_time_ = std::max(virtual_time_, finished);
  }

  /// False: no request waits.
  bool Dispatch(const PolicyInput& input) {
    Flow* next = nullptr;
    for (const VgpuView& vgpu : input.vgpus) {
      Flow& flow = flows_.Seen(vgpu);
      if (Waits(vgpu) && !flow.admitted && (next == nullptr || flow.tag < next->tag)) next = &flow;
    }
    if (next == nullptr) return false;
    next->admitted = true;
    virtual_time_ = std::max(virtual_time_, next->tag);
    return true;
  }

  const std::size_t depth_;
  const Duration tick_;
  double virtual_time_ = 0;
  core::SlotStates<Flow> flows_;
};

}  // namespace

std::unique_ptr<core::Policy> MakeStartTimeFair(const StartTimeFairParams& params) {
  return std::make_unique<StartTimeFair>(params);
}

}  // namespace weir::sim
