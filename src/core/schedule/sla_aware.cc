// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/sla_aware.h"

#include "core/schedule/giving_way.h"

namespace weir::core {
namespace {

/// The policy only sets the pace: each agent delays its own frames (core/schedule/frame_pacer.h) by its own history.
/// Where the promised rates need more than the device has, lighter vGPUs are paced more slowly.
class SlaAware final : public Policy {
 public:
  explicit SlaAware(const SlaAwareParams& params)
      : sync_(params.sync),
        start_(params.frame_start),
        caps_rates_(params.cap_rates),
        giving_way_(params.fps > 0 ? FromSeconds(1.0 / params.fps) : Duration{0}, params.give_way) {}

  [[nodiscard]] bool caps_rates() const override { return caps_rates_; }

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    giving_way_.See(input.now, input.vgpus);
    for (std::size_t i = 0; i < input.vgpus.size(); ++i)
      verdicts[i] = {.admission = Admission::kOpen,
                     .allowance = {},
                     .frame_interval = giving_way_.IntervalOf(input.vgpus[i]),
                     .sync = sync_,
                     .start = start_};
    return giving_way_.any() ? input.now + GivingWay::kEvery : kNever;
  }

 private:
  const FrameSync sync_;
  const FrameStart start_;
  const bool caps_rates_;
  GivingWay giving_way_;
};

}  // namespace

std::unique_ptr<Policy> MakeSlaAware(const SlaAwareParams& params) { return std::make_unique<SlaAware>(params); }

}  // namespace weir::core
