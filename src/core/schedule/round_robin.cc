// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/round_robin.h"

#include <algorithm>

namespace weir::core {
namespace {

/// The turn is looked at for this long after the last activity.
constexpr Duration kTurnWatched = milliseconds(100);

/// What a vGPU that is alone may use before the next look, so that its own turns follow each other without a gap.
constexpr Duration kAhead = milliseconds(20);
/// Alone for this long, it is looked at less often.
constexpr Duration kAloneFor = seconds(1);
constexpr Duration kAloneTick = milliseconds(5);

/// What a vGPU may still use of its turns; negative: it overran one, and pays with the next.
struct Credit {
  Duration left{};
  Duration used{};
};

/// The holder of the turn keeps it while it has something to run, until its quantum is used up; frames can't be
/// preempted, so a turn ends with the frame that ends it. Credit that a holder doesn't need is lost, debt is kept: with
/// frames of any length everybody gets the same GPU time (deficit round robin).
class RoundRobin final : public Policy {
 public:
  RoundRobin(Duration quantum, Duration tick) : quantum_(quantum), tick_(tick) {}

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    bool awake = false;
    std::size_t lately = 0;
    for (const VgpuView& vgpu : input.vgpus) {
      lately += Competes(vgpu, input.now, kAloneFor) ? 1 : 0;
      bool fresh = false;
      Credit& credit = credits_.At(vgpu, fresh);
      if (!fresh) credit.left -= vgpu.used - credit.used;
      credit.used = vgpu.used;
      awake |= Competes(vgpu, input.now, kTurnWatched);
    }
    if (lately == 1) return DecideLone(input, verdicts);
    const VgpuView* holder = Turn(input);
    for (std::size_t i = 0; i < input.vgpus.size(); ++i)
      verdicts[i] = {.admission = Admission::kGated, .allowance = Allow(input.vgpus[i], holder)};
    return awake ? input.now + tick_ : kNever;
  }

 private:
  /// Its turns follow each other, also while it draws: nobody is there whom a debt could be paid to.
  Instant DecideLone(const PolicyInput& input, std::span<Verdict> verdicts) {
    bool awake = false;
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const bool lone = Competes(input.vgpus[i], input.now, kAloneFor);
      if (lone) CreditOf(input.vgpus[i]).left = quantum_;
      awake |= Competes(input.vgpus[i], input.now, kTurnWatched);
      verdicts[i] = {.admission = Admission::kGated, .allowance = lone ? kAhead : quantum_};
    }
    return awake ? input.now + std::max(kAloneTick, tick_) : kNever;
  }

  /// Who is held by its cap could not use the turn.
  static bool Wants(const VgpuView& vgpu) {
    return vgpu.attached && (vgpu.in_flight > 0 || (vgpu.waiting > 0 && !vgpu.held));
  }

  /// Who has the turn now; null: nobody wants it.
  const VgpuView* Turn(const PolicyInput& input) {
    const VgpuView* holder = nullptr;
    for (const VgpuView& vgpu : input.vgpus)
      if (vgpu.id == holder_) holder = &vgpu;
    std::size_t wanting = 0;
    for (const VgpuView& vgpu : input.vgpus) wanting += Wants(vgpu) ? 1 : 0;
    alone_ = wanting == 1;
    if (holder != nullptr && (holder->in_flight > 0 || (Wants(*holder) && CreditOf(*holder).left > Duration{0})))
      return holder;
    if (holder != nullptr) CreditOf(*holder).left = std::min(CreditOf(*holder).left, Duration{0});
    const VgpuView* next = Next(input);
    holder_ = next != nullptr ? next->id : VgpuId{};
    if (next != nullptr) slot_ = next->slot;
    return next;
  }

  /// Hands the turn round until one has credit again: who is in debt pays with the turns it gets. All rounds at once.
  const VgpuView* Next(const PolicyInput& input) {
    const VgpuView* next = nullptr;
    std::int64_t fewest = 0;
    for (const VgpuView& vgpu : input.vgpus) {
      if (!Wants(vgpu)) continue;
      const std::int64_t rounds = RoundsFor(vgpu);
      if (next != nullptr && (rounds > fewest || (rounds == fewest && Distance(vgpu) > Distance(*next)))) continue;
      next = &vgpu;
      fewest = rounds;
    }
    if (next == nullptr) return nullptr;
    for (const VgpuView& vgpu : input.vgpus) {
      if (!Wants(vgpu)) continue;
      const bool had_its_turn_this_round = Distance(vgpu) <= Distance(*next);
      CreditOf(vgpu).left += (fewest - (had_its_turn_this_round ? 0 : 1)) * quantum_;
    }
    return next;
  }

  /// Turns it must get before it may run in one.
  std::int64_t RoundsFor(const VgpuView& vgpu) { return -std::min(CreditOf(vgpu).left, Duration{0}) / quantum_ + 1; }

  /// Round the ring of slots, from the one that had the last turn; that one itself is the farthest.
  [[nodiscard]] std::uint32_t Distance(const VgpuView& vgpu) const { return vgpu.slot - slot_ - 1; }

  /// While nobody wants the turn everybody may begin: who comes first is seen and gets it.
  Duration Allow(const VgpuView& vgpu, const VgpuView* holder) {
    const Duration left = CreditOf(vgpu).left;
    if (alone_ && &vgpu == holder) return left + kAhead;
    if (holder == nullptr) return std::min(left, Duration{0}) + quantum_;
    return &vgpu == holder ? left : std::min(left, Duration{0});
  }

  Credit& CreditOf(const VgpuView& vgpu) {
    bool fresh = false;
    return credits_.At(vgpu, fresh);
  }

  const Duration quantum_;
  const Duration tick_;
  VgpuId holder_;
  std::uint32_t slot_ = 0;
  bool alone_ = false;  // nobody else wants the turn
  SlotStates<Credit> credits_;
};

}  // namespace

std::unique_ptr<Policy> MakeRoundRobin(const PolicyParams& checked) {
  return std::make_unique<RoundRobin>(FromSeconds(checked.find("quantum_ms")->second * 1e-3),
                                      FromSeconds(checked.find("tick_ms")->second * 1e-3));
}

}  // namespace weir::core
