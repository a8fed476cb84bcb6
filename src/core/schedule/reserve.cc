// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/reserve.h"

#include <algorithm>

namespace weir::core {
namespace {

// Decisions continue in every period for this long after the last activity. The budget of an idle vGPU is updated when
// it returns.
constexpr Duration kGrace = milliseconds(100);

/// Budget e_i of vGPU i: replenished every period t, overdrawn by at most one frame.
/// e_i = min(t·s_i, e_i + t·s_i)   (VGRIS, eq. 1);  s_i = w_i / Σ w over all vGPUs of the device.
struct Budget {
  double e_ns = 0;
  Duration used{};
  std::int64_t passed = 0;  // periods that it has seen
};

class Reserve final : public Policy {
 public:
  explicit Reserve(Duration period) : period_(period) {}

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    const std::int64_t before = passed_;
    const std::int64_t periods = PassedPeriods(input.now);
    passed_ += periods;
    auto weights = static_cast<double>(input.resting.weights);
    for (const VgpuView& vgpu : input.vgpus) weights += vgpu.weight;
    bool active = false;
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      const double refill = static_cast<double>(period_.count()) * vgpu.weight / weights;
      verdicts[i] = {
          .admission = Admission::kGated, .allowance = Replenish(vgpu, refill, periods, before), .frame_interval = {}};
      active |= Competes(vgpu, input.now, kGrace);
    }
    return active ? next_ : kNever;
  }

 private:
  /// Number of periods that ended since the last decision; `next_` is the end of the current period.
  std::int64_t PassedPeriods(Instant now) {
    if (next_ == Instant{}) return next_ = now + period_, 0;
    if (now < next_) return 0;
    const std::int64_t periods = (now - next_) / period_ + 1;
    next_ += periods * period_;
    return periods;
  }

  /// Closed form over the periods that have passed. What was spent since the last decision is charged to the last
  /// period. This is exact when every period has a decision, and never generous after an idle time. `before`: periods
  /// until the last decision; the vGPU rested in those that it has missed, and used nothing.
  Duration Replenish(const VgpuView& vgpu, double refill, std::int64_t periods, std::int64_t before) {
    bool fresh = false;
    Budget& budget = budgets_.At(vgpu, fresh);
    if (fresh) budget = {refill, vgpu.used, before};
    const std::int64_t missed = before - budget.passed;
    budget.passed = before + periods;
    if (missed > 0) budget.e_ns = std::min(refill, budget.e_ns + static_cast<double>(missed) * refill);
    if (periods > 1) budget.e_ns = std::min(refill, budget.e_ns + static_cast<double>(periods - 1) * refill);
    budget.e_ns -= static_cast<double>((vgpu.used - budget.used).count());
    budget.used = vgpu.used;
    if (periods > 0) budget.e_ns = std::min(refill, budget.e_ns + refill);
    return Duration{static_cast<std::int64_t>(budget.e_ns)};
  }

  Duration period_;
  Instant next_{};
  std::int64_t passed_ = 0;  // periods
  SlotStates<Budget> budgets_;
};

}  // namespace

std::unique_ptr<Policy> MakeReserve(const ReserveParams& params) { return std::make_unique<Reserve>(params.period); }

}  // namespace weir::core
