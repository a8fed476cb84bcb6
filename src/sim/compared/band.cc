// SPDX-License-Identifier: Apache-2.0
#include "sim/compared/band.h"

#include <algorithm>
#include <vector>

#include "sim/compared/wants.h"

namespace weir::sim {
namespace {

using core::PolicyInput;
using core::VgpuView;

/// Bandwidths are measured over this time.
constexpr Duration kWindow = seconds(1);

struct Budget {
  Duration credit{};
  Duration used{};
  Duration window_used{};   // what was used when the window began
  std::uint64_t ended = 0;  // frames and kernels, at the last decision
  double bandwidth = 0;     // fraction of the device in the last whole window
  std::uint64_t place = 0;  // in the list: the least is asked first
};

/// One vGPU has the device at a time. When one of its frames or kernels ends, a vGPU without credit and beyond its
/// bandwidth goes to the end of the list, and the first in the list that waits is next. If that one is beyond its
/// bandwidth, the device is kept free for `yield`, and whoever arrives meanwhile has it.
class Band final : public core::Policy {
 public:
  explicit Band(const BandParams& params) : params_(params) {}

  Instant Decide(const PolicyInput& input, std::span<core::Verdict> verdicts) override {
    Account(input);
    const VgpuView* holder = Holder(input);
    if (holder == nullptr || holder->in_flight == 0 || HasEndedOne(*holder)) holder = SelectNext(input, holder);
    for (const VgpuView& vgpu : input.vgpus) budgets_.Seen(vgpu).ended = vgpu.frames;
    bool awake = false;
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      awake |= Competes(vgpu, input.now, kAwakeFor);
      // While no vGPU has the device, those that arrive may take it; those that sleep are not woken.
      const bool passes = holder != nullptr ? &vgpu == holder : !Waits(vgpu);
      verdicts[i] = {.admission = core::Admission::kGated,
                     .allowance = passes ? params_.period : Duration{0},
                     .frees_device = vgpu.in_flight > 0};
    }
    if (!awake) return core::kNever;
    return yields_until_ > input.now ? std::min(yields_until_, input.now + params_.tick) : input.now + params_.tick;
  }

 private:
  void Account(const PolicyInput& input) {
    double weights = 0;
    for (const VgpuView& vgpu : input.vgpus) weights += Competes(vgpu, input.now, kWindow) ? vgpu.weight : 0;
    const bool replenish = input.now >= credits_at_, measure = input.now >= window_at_;
    for (const VgpuView& vgpu : input.vgpus) {
      bool fresh = false;
      Budget& budget = budgets_.At(vgpu, fresh);
      if (fresh) budget.used = budget.window_used = vgpu.used, budget.place = ++places_;
      budget.credit -= vgpu.used - budget.used;
      budget.used = vgpu.used;
      if (replenish) Replenish(budget, PartOf(vgpu, weights));
      if (measure) {
        budget.bandwidth = SecondsOf(vgpu.used - budget.window_used) / SecondsOf(kWindow);
        budget.window_used = vgpu.used;
      }
      exceeds_.resize(std::max(exceeds_.size(), static_cast<std::size_t>(vgpu.slot) + 1));
      exceeds_[vgpu.slot] = budget.bandwidth > PartOf(vgpu, weights);
    }
    if (replenish) credits_at_ = input.now + params_.period;
    if (measure) window_at_ = input.now + kWindow;
  }

  static double PartOf(const VgpuView& vgpu, double weights) { return weights > 0 ? vgpu.weight / weights : 1; }

  /// A credit or a debt of more than a period is taken away.
  void Replenish(Budget& budget, double part) const {
    budget.credit += Duration{static_cast<std::int64_t>(static_cast<double>(params_.period.count()) * part)};
    if (budget.credit > params_.period || budget.credit < -params_.period) budget.credit = Duration{0};
  }

  bool HasEndedOne(const VgpuView& vgpu) const { return vgpu.frames != budgets_.Seen(vgpu).ended; }

  /// The vGPU that has the device; also one that took it while nobody had it.
  const VgpuView* Holder(const PolicyInput& input) {
    const VgpuView* arrived = nullptr;
    for (const VgpuView& vgpu : input.vgpus) {
      if (vgpu.id == holder_) return &vgpu;
      if (vgpu.in_flight > 0) arrived = &vgpu;
    }
    if (arrived != nullptr) Give(arrived);
    return arrived;
  }

  /// `before`: the vGPU whose work has just ended. Null: nobody has the device.
  const VgpuView* SelectNext(const PolicyInput& input, const VgpuView* before) {
    if (before != nullptr) {
      Budget& budget = budgets_.Seen(*before);
      if (budget.credit <= Duration{0} && exceeds_[before->slot]) budget.place = ++places_;
    }
    const VgpuView* next = nullptr;
    for (const VgpuView& vgpu : input.vgpus)
      if (Waits(vgpu) && (next == nullptr || budgets_.Seen(vgpu).place < budgets_.Seen(*next).place)) next = &vgpu;
    if (next == nullptr || next == before || !exceeds_[next->slot] || yields_until_ != Instant{}) {
      const bool yields = next != nullptr && yields_until_ > input.now && next != before;
      if (!yields) Give(next);
      return yields ? nullptr : next;
    }
    holder_ = VgpuId{};
    yields_until_ = input.now + params_.yield;
    return nullptr;
  }

  void Give(const VgpuView* vgpu) {
    holder_ = vgpu != nullptr ? vgpu->id : VgpuId{};
    yields_until_ = Instant{};
  }

  const BandParams params_;
  VgpuId holder_;
  Instant credits_at_{}, window_at_{};
  Instant yields_until_{};  // {}: the device is not kept free
  std::uint64_t places_ = 0;
  core::SlotStates<Budget> budgets_;
  std::vector<bool> exceeds_;  // by slot: it used more than its bandwidth
};

}  // namespace

std::unique_ptr<core::Policy> MakeBand(const BandParams& params) { return std::make_unique<Band>(params); }

}  // namespace weir::sim
