// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/round_robin.h"

#include <algorithm>

#include "core/schedule/anticipation.h"
#include "core/schedule/queued_work.h"

namespace weir::core {
namespace {

/// The turn is checked for this long after the last activity.
constexpr Duration kTurnWatched = milliseconds(100);

/// GPU time that a lone vGPU may use before the next decision, so that its turns follow each other without a gap.
constexpr Duration kAhead = milliseconds(20);
/// A vGPU that is alone for this long is polled less often.
constexpr Duration kAloneFor = seconds(1);
constexpr Duration kAloneTick = milliseconds(5);

/// The turn is passed on during the last frame of a vGPU whose frames are no longer than this.
constexpr Duration kPassedDuring = milliseconds(100);

/// What a vGPU may still use of its turns. Negative: it overran a turn, and pays with its next turns.
struct Credit {
  Duration left{};
  Duration used{};
  QueuedWork::Probe probe;
};

/// Deficit round robin. The holder of the turn keeps it while it has work, until its quantum is used up. Frames can't
/// be preempted, so a turn ends at the end of a frame, or during the last frame when a vGPU waits that owes less than a
/// turn. Unused credit is lost and debt is kept: with frames of any length all vGPUs get the same GPU time.
///
/// A vGPU between two frames takes part in the rounds, and no vGPU in greater debt has the turn meanwhile. Otherwise a
/// vGPU in debt could pay at once, with rounds in which no other vGPU runs.
class RoundRobin final : public Policy {
 public:
  explicit RoundRobin(const RoundRobinParams& params)
      : quantum_(params.quantum),
        tick_(params.tick),
        as_gvirt_(params.grace == Duration{0}),
        anticipation_{.grace = params.grace, .tick = params.tick} {}

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    bool awake = false;
    std::size_t lately = 0;
    work_.Pass(input.now);
    for (const VgpuView& vgpu : input.vgpus) {
      lately += Competes(vgpu, input.now, kAloneFor) ? 1 : 0;
      bool fresh = false;
      Credit& credit = credits_.At(vgpu, fresh);
      const Duration used = fresh ? Duration{0} : vgpu.used - credit.used;
      credit.left -= used;
      credit.used = vgpu.used;
      work_.Add(vgpu, used, credit.probe);
      awake |= Competes(vgpu, input.now, kTurnWatched);
    }
    part_ = 1 / static_cast<double>(std::max<std::size_t>(lately, 1));
    if (lately == 1) return DecideLone(input, verdicts);
    short_queue_ = !as_gvirt_ && AnyComesSeldom(input);
    const Duration room = anticipation_.Room(work_.left(), input);
    const VgpuView* holder = Turn(input);
    const VgpuView* first = holder != nullptr && room == Duration{0} ? GoesFirst(*holder, input) : nullptr;
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      Duration allowance = Allow(vgpu, holder, input.late);
      if (KeepsQueueShort(vgpu)) allowance = std::min(allowance, room);
      if (&vgpu == first) allowance = CreditOf(vgpu).left + quantum_;
      verdicts[i] = {.admission = Admission::kGated, .allowance = allowance, .frees_device = GoesAway(vgpu)};
    }
    return awake ? input.now + tick_ : kNever;
  }

 private:
  /// Renews the turn at every decision, also during a frame: there is no other vGPU to repay a debt to.
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

  /// A vGPU that is held by its cap could not use the turn.
  static bool Wants(const VgpuView& vgpu) {
    return vgpu.attached && (vgpu.in_flight > 0 || (vgpu.waiting > 0 && !vgpu.held));
  }

  [[nodiscard]] bool KeepsQueueShort(const VgpuView& vgpu) const {
    return short_queue_ && anticipation_.CouldUse(vgpu, part_);
  }

  /// Whether the next frame of the vGPU arrives after the next tick. A decision at the end of its work then only passes
  /// the turn on sooner.
  [[nodiscard]] bool GoesAway(const VgpuView& vgpu) const {
    return vgpu.in_flight > 0 && (vgpu.blocks || vgpu.least_think >= tick_);
  }

  [[nodiscard]] bool AnyComesSeldom(const PolicyInput& input) const {
    return std::ranges::any_of(input.vgpus, [&](const VgpuView& vgpu) {
      return Competes(vgpu, input.now, kAloneFor) && anticipation_.ComesSeldom(vgpu, part_);
    });
  }

  /// Whether the vGPU is between two frames, and could use its part of the device.
  [[nodiscard]] bool Expected(const VgpuView& vgpu, const PolicyInput& input) const {
    return vgpu.attached && !vgpu.held && !Wants(vgpu) && anticipation_.Expects(vgpu, input, part_);
  }

  /// The vGPU that has the turn now; null: no vGPU wants it.
  const VgpuView* Turn(const PolicyInput& input) {
    const VgpuView* holder = nullptr;
    for (const VgpuView& vgpu : input.vgpus)
      if (vgpu.id == holder_) holder = &vgpu;
    std::size_t wanting = 0;
    for (const VgpuView& vgpu : input.vgpus) wanting += Wants(vgpu) ? 1 : 0;
    alone_ = wanting == 1;
    if (holder != nullptr && Wants(*holder) && CreditOf(*holder).left > Duration{0}) return holder;
    if (holder != nullptr && holder->in_flight > 0) {
      const VgpuView* ready = EndsSoon(*holder) ? FirstReady(input, /*only_seldom=*/false) : nullptr;
      return ready != nullptr ? PassTurn(input, *ready, 1) : holder;
    }
    if (holder != nullptr) {
      Credit& credit = CreditOf(*holder);
      const bool expected = Expected(*holder, input);
      if (expected && credit.left > Duration{0} && wanting > 0 && !AnyReady(input)) return holder;
      credit.left = std::min(credit.left, expected ? quantum_ : Duration{0});
    }
    const VgpuView* next = Next(input);
    holder_ = next != nullptr ? next->id : VgpuId{};
    if (next == nullptr) return nullptr;
    const std::int64_t rounds = RoundsFor(*next);
    if (!as_gvirt_ && next->in_flight > 0 && rounds > 1) return next;  // it pays after this frame
    return PassTurn(input, *next, rounds);
  }

  /// The vGPU that may begin while the holder of the turn waits for room in the queue: one that comes seldom and may
  /// run in this round. Behind the next frame of the holder, it would miss its blank. It uses its own next turn, so
  /// each goes first once in a round. Null: none.
  const VgpuView* GoesFirst(const VgpuView& holder, const PolicyInput& input) {
    if (holder.in_flight > 0 || !KeepsQueueShort(holder)) return nullptr;
    return FirstReady(input, /*only_seldom=*/true);
  }

  /// Whether the turn may be passed on during the last frame of the vGPU, which can't be preempted. The frame of the
  /// next vGPU then begins without a gap. A frame that is admitted behind a long kernel gains nothing: its vGPU no
  /// longer waits at the gate, and seems to be stuck.
  [[nodiscard]] bool EndsSoon(const VgpuView& vgpu) const { return !as_gvirt_ && vgpu.frame_gpu <= kPassedDuring; }

  /// The next in the ring that waits and may run in this round; with `only_seldom`, of those that come seldom.
  const VgpuView* FirstReady(const PolicyInput& input, bool only_seldom) {
    const VgpuView* first = nullptr;
    for (const VgpuView& vgpu : input.vgpus)
      if (vgpu.attached && vgpu.waiting > 0 && vgpu.in_flight == 0 && !vgpu.held && RoundsFor(vgpu) == 1 &&
          (!only_seldom || anticipation_.ComesSeldom(vgpu, part_)) &&
          (first == nullptr || Distance(vgpu) < Distance(*first)))
        first = &vgpu;
    return first;
  }

  /// Whether a vGPU that wants the turn could have it in the next round.
  bool AnyReady(const PolicyInput& input) {
    return std::ranges::any_of(input.vgpus, [this](const VgpuView& v) { return Wants(v) && RoundsFor(v) == 1; });
  }

  /// The vGPU that has credit after the fewest rounds. A vGPU that is expected has the turn before those that need more
  /// rounds. Null: no vGPU wants the turn.
  const VgpuView* Next(const PolicyInput& input) {
    const VgpuView* next = nullptr;
    bool any_wants = false;
    for (const VgpuView& vgpu : input.vgpus) {
      any_wants |= Wants(vgpu);
      if (!Wants(vgpu) && !Expected(vgpu, input)) continue;
      if (next == nullptr || GoesBefore(vgpu, *next)) next = &vgpu;
    }
    return any_wants ? next : nullptr;
  }

  /// Passes the turn on for this many rounds: a vGPU in debt pays with the turns that it gets. One that wants nothing
  /// pays, too, since others use its turns; it saves up nothing, or one turn if it is expected.
  const VgpuView* PassTurn(const PolicyInput& input, const VgpuView& next, std::int64_t rounds) {
    for (const VgpuView& vgpu : input.vgpus) {
      const bool wants = Wants(vgpu), expected = Expected(vgpu, input);
      if (!wants && !expected && as_gvirt_) continue;
      const bool had_its_turn_this_round = Distance(vgpu) <= Distance(next);
      Duration& left = CreditOf(vgpu).left;
      const Duration paid = left + (rounds - (had_its_turn_this_round ? 0 : 1)) * quantum_;
      left = wants ? paid : std::max(left, std::min(paid, expected ? quantum_ : Duration{0}));
    }
    holder_ = next.id;
    slot_ = next.slot;
    return &next;
  }

  bool GoesBefore(const VgpuView& a, const VgpuView& b) {
    const std::int64_t rounds_a = RoundsFor(a), rounds_b = RoundsFor(b);
    if (rounds_a != rounds_b) return rounds_a < rounds_b;
    if (Wants(a) != Wants(b)) return Wants(a);
    return Distance(a) < Distance(b);
  }

  /// Number of turns until the vGPU may run.
  std::int64_t RoundsFor(const VgpuView& vgpu) { return -std::min(CreditOf(vgpu).left, Duration{0}) / quantum_ + 1; }

  /// Distance in the ring of slots from the vGPU with the last turn, which is itself the farthest.
  [[nodiscard]] std::uint32_t Distance(const VgpuView& vgpu) const { return vgpu.slot - slot_ - 1; }

  /// While no vGPU wants the turn, every vGPU may begin; the first to arrive gets the turn at the next decision. Where
  /// decisions come late, the holder may use the device until then, and pays with its next turns.
  Duration Allow(const VgpuView& vgpu, const VgpuView* holder, Duration late) {
    const Duration left = CreditOf(vgpu).left;
    if (alone_ && &vgpu == holder) return left + kAhead;
    if (holder == nullptr) return std::min(left, Duration{0}) + quantum_;
    if (&vgpu == holder && left > Duration{0}) return left + late;
    return &vgpu == holder ? left : std::min(left, Duration{0});
  }

  Credit& CreditOf(const VgpuView& vgpu) {
    bool fresh = false;
    return credits_.At(vgpu, fresh);
  }

  const Duration quantum_;
  const Duration tick_;
  const bool as_gvirt_;  // one vGPU at a time; no vGPU is waited for
  const Anticipation anticipation_;
  QueuedWork work_;
  double part_ = 1;  // equal part of the device for each vGPU that competed within kAloneFor
  VgpuId holder_;
  std::uint32_t slot_ = 0;
  bool alone_ = false;        // no other vGPU wants the turn
  bool short_queue_ = false;  // a vGPU comes seldom
  SlotStates<Credit> credits_;
};

}  // namespace

std::unique_ptr<Policy> MakeRoundRobin(const RoundRobinParams& params) { return std::make_unique<RoundRobin>(params); }

}  // namespace weir::core
