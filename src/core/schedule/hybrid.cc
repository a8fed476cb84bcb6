// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/hybrid.h"

#include <algorithm>

#include "core/schedule/proportional_share.h"
#include "core/schedule/reserve.h"

namespace weir::core {
namespace {

constexpr Duration kSecond = seconds(1);

/// State of a vGPU for Algorithm 1.
struct Tenant {
  Duration used_before{};     // at the start of the current second
  Duration used_at_switch{};  // at the start of the period of low use
  std::int64_t low_s = 0;     // consecutive seconds with a rate below the threshold
  double share = 0;           // s_i; 0: it was added after the shares were computed, and gets an average share
};

std::unique_ptr<Policy> MakeShares(HybridShares shares) {
  return shares == HybridShares::kReserve ? MakeReserve({}) : MakeProportionalShare({});
}

///                 some rate < FPSthres for Time s
///   ┌──▶ shares ─────────────────────────────────▶ sla-aware ──┐
///   │    s_i = 1/n at first                                    │
///   └────────── use of the device < GPUthres for Time s ◀──────┘
///               s_i = u_i + (1 - Σu)/n   (VGRIS, eq. 2)
class Hybrid final : public Policy {
 public:
  explicit Hybrid(const HybridParams& params)
      : params_(params),
        shares_(MakeShares(params.shares)),
        sla_(MakeSlaAware(
            {.fps = params.fps, .sync = params.sync, .frame_start = params.frame_start, .give_way = params.give_way})) {
  }

  [[nodiscard]] bool caps_rates() const override { return params_.cap_rates; }

  [[nodiscard]] Duration remembers() const override { return std::max(shares_->remembers(), sla_->remembers()); }

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    for (const VgpuView& vgpu : input.vgpus) TenantOf(vgpu);
    if (second_ends_ == Instant{}) StartSecond(input);
    if (input.now >= second_ends_) {
      if (sla_mode_)
        LookForLowUse(input);
      else
        LookForLowRate(input);
      StartSecond(input);
    }
    bool attached = input.resting.attached > 0;
    for (const VgpuView& vgpu : input.vgpus) attached |= vgpu.attached;
    const Instant look = sla_mode_ ? sla_->Decide(input, verdicts) : DecideShares(input, verdicts);
    return attached ? std::min(look, second_ends_) : look;
  }

 private:
  void StartSecond(const PolicyInput& input) {
    second_began_ = input.now;
    second_ends_ = input.now + kSecond;
    ForAll(input, [this](const VgpuView& vgpu) { TenantOf(vgpu).used_before = vgpu.used; });
  }

  /// Visits all vGPUs, resting ones included. To be called once a second at most.
  static void ForAll(const PolicyInput& input, auto&& each) {
    for (const VgpuView& vgpu : input.vgpus) each(vgpu);
    for (const VgpuView& vgpu : input.resting.views) each(vgpu);
  }

  /// Whether the rate of the vGPU is judged. A program that presents nothing and requests nothing is not starved.
  static bool Counts(const VgpuView& vgpu, Instant now) {
    return vgpu.attached && (vgpu.rate > 0 || Competes(vgpu, now, kSecond));
  }

  /// Algorithm 1, lines 2 and 3: the rate of one and the same vGPU is low for Time s.
  void LookForLowRate(const PolicyInput& input) {
    bool starved = false;
    ForAll(input, [&](const VgpuView& vgpu) {
      const Duration interval = vgpu.promised > Duration{0} ? vgpu.promised : least_interval_;
      const bool has_rate = vgpu.draws || vgpu.promised > Duration{0};
      const bool low = has_rate && Counts(vgpu, input.now) && vgpu.rate < (1 - params_.fps_slack) / SecondsOf(interval);
      Tenant& tenant = TenantOf(vgpu);
      tenant.low_s = low ? tenant.low_s + 1 : 0;
      starved |= tenant.low_s >= params_.wait / seconds(1);
    });
    if (!starved) return;
    sla_mode_ = true;
    low_use_s_ = 0;
  }

  /// Lines 4 to 6. The use u_i in the formula for shares is the mean over the whole period of low use.
  void LookForLowUse(const PolicyInput& input) {
    double use = 0;
    bool attached = false;
    ForAll(input, [&](const VgpuView& vgpu) {
      Tenant& tenant = TenantOf(vgpu);
      use += SecondsOf(vgpu.used - tenant.used_before) / SecondsOf(input.now - second_began_);
      if (low_use_s_ == 0) tenant.used_at_switch = tenant.used_before;
      attached |= vgpu.attached;
    });
    if (low_use_s_ == 0) low_since_ = second_began_;
    low_use_s_ = use < params_.gpu_use && attached ? low_use_s_ + 1 : 0;
    if (low_use_s_ < params_.wait / seconds(1)) return;
    sla_mode_ = false;
    shares_ = MakeShares(params_.shares);  // its state is outdated
    CalcShares(input);
  }

  /// s_i = u_i + (1 - Σu)/n   (VGRIS, eq. 2), over the attached vGPUs.
  void CalcShares(const PolicyInput& input) {
    double all = 0;
    double n = 0;
    const double span = SecondsOf(input.now - low_since_);
    ForAll(input, [&](const VgpuView& vgpu) {
      Tenant& tenant = TenantOf(vgpu);
      tenant.low_s = 0;
      tenant.share = vgpu.attached ? std::max(SecondsOf(vgpu.used - tenant.used_at_switch) / span, 0.0) : 0.0;
      all += tenant.share;
      n += vgpu.attached ? 1 : 0;
    });
    ForAll(input, [&](const VgpuView& vgpu) {
      if (vgpu.attached) TenantOf(vgpu).share += std::max(1 - all, 0.0) / n;
    });
    resting_known_ = false;
  }

  /// Uses the shares as weights.
  Instant DecideShares(const PolicyInput& input, std::span<Verdict> verdicts) {
    if (!resting_known_ || resting_.changes != input.resting.changes) SumResting(input.resting);
    double known = resting_.shares;
    double n = resting_.with_share;
    for (const VgpuView& vgpu : input.vgpus) {
      known += TenantOf(vgpu).share;
      n += TenantOf(vgpu).share > 0 ? 1 : 0;
    }
    const std::size_t all = input.vgpus.size() + input.resting.views.size();
    const double fair = n > 0 ? known / n : 1.0 / static_cast<double>(std::max<std::size_t>(all, 1));
    views_.assign(input.vgpus.begin(), input.vgpus.end());
    for (VgpuView& view : views_) view.weight = WeightOf(view, fair);
    if (resting_.fair != fair) WeighResting(input.resting, fair);
    RestingVgpus resting = input.resting;
    resting.weights = resting_.weights;
    return shares_->Decide({input.now, views_, input.late, resting}, verdicts);
  }

  std::uint32_t WeightOf(const VgpuView& vgpu, double fair) {
    const double share = TenantOf(vgpu).share;
    return static_cast<std::uint32_t>(
        std::clamp((share > 0 ? share : fair) * kWeightMax, 1.0, static_cast<double>(kWeightMax)));
  }

  /// Sums over the resting vGPUs, cached while neither the set of these vGPUs nor the shares change.
  struct Resting {
    std::uint64_t changes = 0;          // RestingVgpus::changes at that time
    double shares = 0, with_share = 0;  // sum of the known shares, and their number
    double fair = -1;                   // the average share with which `weights` was computed; -1: not computed
    std::uint64_t weights = 0;
  };
  void SumResting(const RestingVgpus& resting) {
    resting_ = {.changes = resting.changes};
    for (const VgpuView& vgpu : resting.views) {
      resting_.shares += TenantOf(vgpu).share;
      resting_.with_share += TenantOf(vgpu).share > 0 ? 1 : 0;
    }
    resting_known_ = true;
  }
  void WeighResting(const RestingVgpus& resting, double fair) {
    resting_.fair = fair;
    resting_.weights = 0;
    for (const VgpuView& vgpu : resting.views) resting_.weights += WeightOf(vgpu, fair);
  }

  Tenant& TenantOf(const VgpuView& vgpu) {
    bool fresh = false;
    Tenant& tenant = tenants_.At(vgpu, fresh);
    if (fresh) tenant.used_before = tenant.used_at_switch = vgpu.used;
    return tenant;
  }

  const HybridParams params_;
  const Duration least_interval_ = FromSeconds(1.0 / params_.fps);  // of a vGPU without a promise
  std::unique_ptr<Policy> shares_;
  const std::unique_ptr<Policy> sla_;
  bool sla_mode_ = false;
  Instant second_began_{};
  Instant second_ends_{};
  Instant low_since_{};
  std::int64_t low_use_s_ = 0;
  SlotStates<Tenant> tenants_;
  std::vector<VgpuView> views_;
  Resting resting_;
  bool resting_known_ = false;
};

}  // namespace

std::unique_ptr<Policy> MakeHybrid(const HybridParams& params) { return std::make_unique<Hybrid>(params); }

}  // namespace weir::core
