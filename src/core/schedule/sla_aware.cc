// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/sla_aware.h"

namespace weir::core {
namespace {

/// The policy only sets the pace: each agent delays its own frames (core/schedule/frame_pacer.h) by its own history.
class SlaAware final : public Policy {
 public:
  SlaAware(Duration preset, FrameSync sync) : preset_(preset), sync_(sync) {}

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      const Duration unpromised = vgpu.draws ? preset_ : Duration{0};  // a frame rate means nothing to a vGPU that only
                                                                       // computes
      verdicts[i] = {.admission = Admission::kOpen,
                     .allowance = {},
                     .frame_interval = vgpu.promised > Duration{0} ? vgpu.promised : unpromised,
                     .sync = sync_};
    }
    return kNever;
  }

 private:
  const Duration preset_;
  const FrameSync sync_;
};

}  // namespace

std::unique_ptr<Policy> MakeSlaAware(const SlaAwareParams& params) {
  return std::make_unique<SlaAware>(params.fps > 0 ? FromSeconds(1.0 / params.fps) : Duration{0}, params.sync);
}

}  // namespace weir::core
