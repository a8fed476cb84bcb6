// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proportional_share.h"

#include <algorithm>
#include <limits>

namespace weir::core {
namespace {

/// Virtual time of a vGPU: GPU nanoseconds it was charged, divided by its weight. Equal virtual times are equal
/// service.
struct Service {
  double v = 0;
  Duration used{};
  bool member = false;
};

/// The memory of the largest step seen halves about this often.
constexpr Duration kStepHalfLife = seconds(1);

/// Ticks go on for this long after the last activity, so that a program of 10 frames/s need not ring for each.
constexpr Duration kAwake = milliseconds(100);

/// A vGPU that has been alone for as long as one is remembered is looked at less often, and may use more until then.
constexpr Duration kLoneTick = milliseconds(5);
constexpr Duration kLoneAhead = milliseconds(20);

struct ShareSettings {
  double quantum_ns;
  double lag_ns;
  Duration grace;
  double hold_duty;
  Duration member;
  Duration tick;
};

class ProportionalShare final : public Policy {
 public:
  explicit ProportionalShare(const ShareSettings& settings) : settings_(settings) {}

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    Charge(input);
    Recentre(input);
    const Front front = FrontOf(input);
    if (const VgpuView* lone = LoneMember(input)) return DecideLone(input, *lone, verdicts);
    for (std::size_t i = 0; i < input.vgpus.size(); ++i)
      verdicts[i] = {.admission = Admission::kGated, .allowance = Allow(input.vgpus[i], front), .frame_interval = {}};
    return front.awake ? input.now + settings_.tick : kNever;
  }

 private:
  /// The one that was active in the last `member` of time, if there is but one; null: none, or several.
  const VgpuView* LoneMember(const PolicyInput& input) {
    const VgpuView* lone = nullptr;
    for (const VgpuView& vgpu : input.vgpus) {
      if (!ServiceOf(vgpu).member) continue;
      if (lone != nullptr) return nullptr;
      lone = &vgpu;
    }
    return lone;
  }

  /// With nobody to share with there is nothing to decide from tick to tick. Who comes is seen within kLoneTick, passes
  /// at once, and starts with the same virtual time.
  Instant DecideLone(const PolicyInput& input, const VgpuView& lone, std::span<Verdict> verdicts) {
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const Duration quantum{static_cast<std::int64_t>(settings_.quantum_ns)};
      verdicts[i] = {.admission = Admission::kGated, .allowance = input.vgpus[i].id == lone.id ? kLoneAhead : quantum};
    }
    return Competes(lone, input.now, kAwake) ? input.now + std::max(kLoneTick, settings_.tick) : kNever;
  }

  struct Front {
    bool competing = false;
    bool awake = false;  // something competed a moment ago: the next frame is near
    double limit = 0;    // nobody starts anything beyond this virtual time
    double least = 0;    // what everybody is offered while nobody competes, in virtual time
  };

  /// Turns what was used since the last look into virtual time, and remembers how large one step can be.
  void Charge(const PolicyInput& input) {
    const Duration elapsed = input.now - last_;
    last_ = input.now;
    if (elapsed > Duration{0})
      largest_step_ns_ *= std::max(0.0, 1.0 - 0.5 * SecondsOf(elapsed) / SecondsOf(kStepHalfLife));
    for (const VgpuView& vgpu : input.vgpus) {
      bool fresh = false;
      Service& service = services_.At(vgpu, fresh);
      const double step = fresh ? 0 : static_cast<double>((vgpu.used - service.used).count());
      service.v += step / vgpu.weight;
      service.used = vgpu.used;
      largest_step_ns_ = std::max(largest_step_ns_, step);
    }
  }

  /// The centre is the weighted mean virtual time of the members: those active within `member`. Who joins starts there,
  /// with no credit for the time before. A member that lags keeps its claim up to `lag` of device time; two of the
  /// largest recent steps are added, so that somebody else's long frame never costs a member its claim. The claim is
  /// against who is farthest ahead, too: a heavy member that lags is nearly the centre itself, and a light one that
  /// used what the heavy one left would else wait until all of it was made up for.
  void Recentre(const PolicyInput& input) {
    double weights = 0;
    double ahead = std::numeric_limits<double>::lowest();
    for (const VgpuView& vgpu : input.vgpus) {
      Service& service = ServiceOf(vgpu);
      const bool member = Competes(vgpu, input.now, settings_.member);
      if (member && !service.member) service.v = std::max(service.v, center_);
      service.member = member;
      if (!member) continue;
      weights += vgpu.weight;
      ahead = std::max(ahead, service.v - 2 * largest_step_ns_ / vgpu.weight);  // but for frames that can't be cut
    }
    member_weights_ = weights;
    if (weights == 0) return;
    const double claim = settings_.lag_ns + 2 * largest_step_ns_;
    const double floor = center_ - claim / weights;
    double center = 0;
    for (const VgpuView& vgpu : input.vgpus) {
      Service& service = ServiceOf(vgpu);
      if (!service.member) continue;
      service.v = std::max({service.v, floor, ahead - claim / vgpu.weight});
      center += service.v * (vgpu.weight / weights);
    }
    center_ = center;
  }

  /// Work-conserving: only who competes at this moment holds the others back. Who is held by its cap could not use what
  /// is kept for it.
  Front FrontOf(const PolicyInput& input) const {
    double weights = 0;
    double least = std::numeric_limits<double>::max();
    bool awake = false;
    for (const VgpuView& vgpu : input.vgpus) {
      awake |= Competes(vgpu, input.now, kAwake);
      if (!HoldsOthersBack(vgpu, input.now)) continue;
      weights += vgpu.weight;
      least = std::min(least, ServiceOf(vgpu).v);
    }
    if (weights > 0) return {true, true, least + settings_.quantum_ns / weights, 0};
    double all_weights = 0;
    for (const VgpuView& vgpu : input.vgpus) all_weights += vgpu.weight;
    return {false, awake, 0, settings_.quantum_ns / std::max(all_weights, 1.0)};
  }

  [[nodiscard]] bool HoldsOthersBack(const VgpuView& vgpu, Instant now) const {
    if (vgpu.held || !vgpu.attached) return false;
    if (vgpu.waiting > 0 || vgpu.in_flight > 0) return true;
    return now - vgpu.last_active < std::min(settings_.grace, 2 * vgpu.frame_think) && CouldUseItsShare(vgpu);
  }

  /// Frames can't be preempted: a long one let in while a vGPU thinks about its next frame costs that vGPU its claim.
  /// So the device is kept for a vGPU that could use its share (alone, its frames would keep the device busy for that
  /// fraction, or for `hold_duty`), for about as long as its next frame should take to come. One that can't use its
  /// share anyway, a game at its own limit of 60 frames/s say, is not waited for.
  [[nodiscard]] bool CouldUseItsShare(const VgpuView& vgpu) const {
    const double alone = SecondsOf(vgpu.frame_gpu + vgpu.least_think);
    const double share = vgpu.weight / std::max(member_weights_, 1.0);
    return alone > 0 && SecondsOf(vgpu.frame_gpu) / alone >= std::min(share, settings_.hold_duty);
  }

  Duration Allow(const VgpuView& vgpu, const Front& front) {
    const Service& service = ServiceOf(vgpu);
    const double v = service.member ? service.v : std::max(service.v, center_);
    const double lead = front.competing ? front.limit - v : front.least;
    return Duration{static_cast<std::int64_t>(lead * vgpu.weight)};
  }

  // Charge has seen them all.
  Service& ServiceOf(const VgpuView& vgpu) { return services_.Seen(vgpu); }
  [[nodiscard]] const Service& ServiceOf(const VgpuView& vgpu) const { return services_.Seen(vgpu); }

  const ShareSettings settings_;
  Instant last_{};
  double center_ = 0;
  double member_weights_ = 0;
  double largest_step_ns_ = 0;  // a frame is reserved at once, so this is about the longest frame
  SlotStates<Service> services_;
};

}  // namespace

std::unique_ptr<Policy> MakeProportionalShare(const PolicyParams& checked) {
  const auto ms = [&checked](std::string_view name) { return checked.find(name)->second * 1e6; };
  const auto duration = [&ms](std::string_view name) { return Duration{static_cast<std::int64_t>(ms(name))}; };
  return std::make_unique<ProportionalShare>(ShareSettings{.quantum_ns = ms("quantum_ms"),
                                                           .lag_ns = ms("lag_ms"),
                                                           .grace = duration("grace_ms"),
                                                           .hold_duty = checked.find("hold_duty")->second,
                                                           .member = duration("member_ms"),
                                                           .tick = duration("tick_ms")});
}

}  // namespace weir::core
