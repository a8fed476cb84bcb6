// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/cap.h"

#include <algorithm>
#include <vector>

#include "core/schedule/giving_way.h"
#include "core/schedule/promises_first.h"
#include "core/schedule/proportional_share.h"
#include "core/schedule/round_robin.h"
#include "core/schedule/time_slices.h"

namespace weir::core {
namespace {

/// vGPUs that were active this recently are updated at every stage; others are brought up to date when they return.
constexpr Duration kRenewedFor = milliseconds(100);

/// A vGPU that wanted the device this recently counts as still wanting it: between two kernels it keeps what it missed.
constexpr Duration kWantsFor = milliseconds(10);

/// For each vGPU, the longest kernel or frame of the other vGPUs that used the device in the last second. The length of
/// a vGPU's kernels is their mean. Only the vGPU with the longest kernels needs the second longest.
class LongestKernels {
 public:
  LongestKernels() = default;
  explicit LongestKernels(const PolicyInput& input) {
    for (const VgpuView& view : input.vgpus) {
      if (view.frame_gpu <= second_ || !(view.stuck || Competes(view, input.now, kRemembered))) continue;
      if (view.frame_gpu <= first_) {
        second_ = view.frame_gpu;
      } else {
        second_ = first_;
        first_ = view.frame_gpu;
        whose_ = view.id;
      }
    }
  }
  [[nodiscard]] Duration OfOthers(VgpuId id) const { return id == whose_ ? second_ : first_; }

 private:
  VgpuId whose_;
  Duration first_{}, second_{};
};

/// Another policy decides which vGPU with time left goes next: by shares of the caps, or in turns (gOver, Algorithm 3:
/// the next in the ring with a slice above zero; an empty queue is skipped). To that policy, a vGPU without time left
/// is held.
class Cap final : public Policy {
 public:
  Cap(const SliceClock& clock, std::unique_ptr<Policy> order, const CapParams& params)
      : clock_(clock),
        order_(std::move(order)),
        caps_rates_(params.cap_rates),
        promises_(params.ahead, params.lend),
        giving_way_(Duration{0}, params.give_way) {}

  [[nodiscard]] bool keeps_caps() const override { return true; }
  [[nodiscard]] bool caps_rates() const override { return caps_rates_; }
  [[nodiscard]] Duration remembers() const override { return order_->remembers(); }

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    views_.assign(input.vgpus.begin(), input.vgpus.end());
    left_.resize(views_.size());
    bool awake = false;
    kernels_ = LongestKernels(input);
    for (std::size_t i = 0; i < views_.size(); ++i) {
      VgpuView& view = views_[i];
      left_[i] = LeftOf(view, input.now);
      view.weight = CapWeight(view);
      view.held = left_[i].of_cap <= Duration{0};
      awake |= Competes(view, input.now, kRenewedFor);
    }
    last_ = input.now;
    RestingVgpus resting = input.resting;
    resting.weights = resting.cap_weights;
    const Instant look_again = order_->Decide({input.now, views_, input.late, resting}, verdicts);
    giving_way_.See(input.now, input.vgpus);
    for (std::size_t i = 0; i < views_.size(); ++i) {
      views_[i].used = input.vgpus[i].used;
      views_[i].promised = giving_way_.IntervalOf(input.vgpus[i]);
      left_[i].gives_way = views_[i].promised > input.vgpus[i].promised;
    }
    promises_.Reorder(input.now, views_, left_, verdicts);
    for (std::size_t i = 0; i < views_.size(); ++i) {
      Account& account = accounts_.Seen(views_[i]);
      account.lent |= left_[i].lent;
      verdicts[i].allowance = std::min(verdicts[i].allowance, left_[i].lent ? left_[i].of_ceiling : left_[i].of_cap);
      verdicts[i].held = views_[i].held;
    }
    return awake ? std::min(look_again, clock_.BeginOf(clock_.StageAt(input.now) + 1)) : look_again;
  }

 private:
  struct Account {
    TimeSlice of_cap, of_ceiling;
    Duration charged{};
    Instant busy_until{};  // when its charged work would end if it had the device to itself
    Duration beyond{};     // the part of `charged` that went beyond its cap
    bool lent = false;     // it was admitted beyond its cap since its slice was used up
    Instant seen{};        // time of the last decision about it
  };

  /// What the vGPU may spend of its cap and of its ceiling. Borrowed time is charged to the ceiling only, and is not
  /// visible to the order policy.
  TimeLeft LeftOf(VgpuView& view, Instant now) {
    bool fresh = false;
    Account& account = accounts_.At(view, fresh);
    if (!fresh && account.seen != last_) CatchUp(account, view);
    const Kept kept = KeptOf(view, account, now);
    const Duration charge = fresh ? Duration{0} : view.used - account.charged;
    account.seen = now;
    if (charge > Duration{0}) account.busy_until = std::max(account.busy_until, now) + charge;
    if (account.lent) account.beyond += charge;
    account.charged = view.used;
    TimeLeft left;
    left.of_ceiling = account.of_ceiling.Left(clock_, now, std::max(view.cap, view.ceiling), view.used, kept);
    view.used -= account.beyond;
    left.of_cap = account.of_cap.Left(clock_, now, view.cap, view.used, kept);
    account.lent &= left.of_cap <= Duration{0};
    if (view.ceiling <= view.cap) left.of_ceiling = Duration{0};
    return left;
  }

  /// What the vGPU keeps at the end of a period. Only the beginning of a long kernel is charged before the kernel ends,
  /// so charges do not show whether the device runs a kernel of another vGPU. Therefore time in which this vGPU wants
  /// the device, and has no charged work of its own left to run, counts as time behind others, up to their longest
  /// kernel. A stuck vGPU still wants the device: it waits for its own kernel, which takes longer than kStuckAfter.
  [[nodiscard]] Kept KeptOf(const VgpuView& view, const Account& account, Instant now) const {
    const bool wants = view.waiting > 0 || view.in_flight > 0;
    const Duration behind = wants ? now - std::max(last_, account.busy_until) : Duration{0};
    return {.kernel = wants || view.stuck ? view.frame_gpu : Duration{0},
            .waited_behind = std::max(behind, Duration{0}),
            .longest_of_others = kernels_.OfOthers(view.id),
            .competes = view.stuck || Competes(view, now, kWantsFor)};
  }

  /// Updates the slices of a vGPU that rested until the last decision: as it wanted nothing, it keeps nothing.
  void CatchUp(Account& account, const VgpuView& view) {
    account.of_ceiling.Left(clock_, last_, std::max(view.cap, view.ceiling), account.charged, {});
    account.of_cap.Left(clock_, last_, view.cap, account.charged - account.beyond, {});
  }

  const SliceClock clock_;
  const std::unique_ptr<Policy> order_;
  const bool caps_rates_;
  PromisesFirst promises_;
  GivingWay giving_way_;
  Instant last_{};  // time of the last decision
  LongestKernels kernels_;
  SlotStates<Account> accounts_;
  std::vector<VgpuView> views_;
  std::vector<TimeLeft> left_;
};

template <typename Params>
SliceClock ClockOf(const Params& params, bool forgives) {
  return {.stage = params.period / params.stages, .stages = params.stages, .forgives = forgives};
}

}  // namespace

// The device is not kept idle for a vGPU between frames: its slice already guarantees its time.
std::unique_ptr<Policy> MakeCap(const CapParams& params) {
  return std::make_unique<Cap>(ClockOf(params, /*forgives=*/false),
                               MakeProportionalShare({.quantum = params.quantum, .grace = {}}), params);
}

std::unique_ptr<Policy> MakeCapPaper(const CapPaperParams& params) {
  return std::make_unique<Cap>(ClockOf(params, /*forgives=*/true),
                               MakeRoundRobin({.quantum = params.quantum, .grace = {}}),
                               CapParams{.ahead = {}, .lend = {}});
}

}  // namespace weir::core
