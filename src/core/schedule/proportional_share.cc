// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proportional_share.h"

#include <algorithm>
#include <limits>

#include "core/schedule/queued_work.h"

namespace weir::core {
namespace {

/// What a vGPU was served. `v` is its virtual time: the GPU nanoseconds that it was charged, divided by its weight. Two
/// vGPUs with equal virtual times have had their shares.
struct Service {
  double v = 0;
  std::uint32_t weight = 0;  // at the last decision
  Duration used{}, reported{};
  QueuedWork::Probe probe;
  bool member = false;
};

/// `largest_step_ns_` decays by half in about this time.
constexpr Duration kStepHalfLife = seconds(1);

/// Ticks continue for this long after the last activity, so that a program of 10 frames/s need not ring the doorbell
/// for each frame.
constexpr Duration kAwake = milliseconds(100);

/// A vGPU that has been the only member is polled less often, and may use more until the next tick.
constexpr Duration kLoneTick = milliseconds(5);
constexpr Duration kLoneAhead = milliseconds(20);

class ProportionalShare final : public Policy {
 public:
  explicit ProportionalShare(const ProportionalShareParams& params)
      : params_(params), anticipation_{.grace = params.grace, .hold_duty = params.hold_duty, .tick = params.tick} {}

  Instant Decide(const PolicyInput& input, std::span<Verdict> verdicts) override {
    Charge(input);
    Recentre(input);
    const Front front = FrontOf(input);
    if (const VgpuView* lone = LoneMember(input)) return DecideLone(input, *lone, verdicts);
    const bool short_queue = AnyComesSeldom(input);
    const Duration room = anticipation_.Room(work_.left(), input);
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const VgpuView& vgpu = input.vgpus[i];
      Duration allowance = Allow(vgpu, front);
      if (short_queue && anticipation_.CouldUse(vgpu, ShareOf(vgpu))) allowance = std::min(allowance, room);
      verdicts[i] = {.admission = Admission::kGated, .allowance = allowance, .frees_device = FreesDevice(vgpu)};
    }
    return front.awake ? input.now + params_.tick : kNever;
  }

  [[nodiscard]] Duration remembers() const override { return std::max(kRemembered, params_.member); }

 private:
  /// The only vGPU that was active within `member`; null: none or several.
  const VgpuView* LoneMember(const PolicyInput& input) {
    const VgpuView* lone = nullptr;
    for (const VgpuView& vgpu : input.vgpus) {
      if (!ServiceOf(vgpu).member) continue;
      if (lone != nullptr) return nullptr;
      lone = &vgpu;
    }
    return lone;
  }

  /// With a single member there is nothing to decide at each tick. A new vGPU is noticed within kLoneTick, passes at
  /// once, and starts with the same virtual time.
  Instant DecideLone(const PolicyInput& input, const VgpuView& lone, std::span<Verdict> verdicts) {
    for (std::size_t i = 0; i < input.vgpus.size(); ++i) {
      const Duration quantum = params_.quantum;
      verdicts[i] = {.admission = Admission::kGated, .allowance = input.vgpus[i].id == lone.id ? kLoneAhead : quantum};
    }
    return Competes(lone, input.now, kAwake) ? input.now + std::max(kLoneTick, params_.tick) : kNever;
  }

  struct Front {
    bool competing = false;
    bool awake = false;  // a vGPU competed within kAwake: the next frame is expected soon
    double limit = 0;    // nothing may start beyond this virtual time
    double least = 0;    // virtual time offered to every vGPU while none competes
  };

  /// Converts GPU time used since the last decision into virtual time, and records the largest step.
  void Charge(const PolicyInput& input) {
    const Duration elapsed = work_.Pass(input.now);
    if (elapsed > Duration{0})
      largest_step_ns_ *= std::max(0.0, 1.0 - 0.5 * SecondsOf(elapsed) / SecondsOf(kStepHalfLife));
    for (const VgpuView& vgpu : input.vgpus) {
      bool fresh = false;
      Service& service = services_.At(vgpu, fresh);
      if (fresh) service.weight = vgpu.weight;
      if (service.weight != vgpu.weight) SetWeight(service, vgpu.weight);
      const Duration used = fresh ? Duration{0} : vgpu.used - service.used;
      const Duration reported = fresh ? Duration{0} : vgpu.reported - service.reported;
      service.used = vgpu.used;
      service.reported = vgpu.reported;
      work_.Add(vgpu, used, service.probe);
      if (used == Duration{0}) continue;  // idle, or its borrowed time is not charged here (cap.cc, LeftOf)
      service.v += static_cast<double>(used.count()) / vgpu.weight;
      const double in_flight = vgpu.in_flight > 1 ? vgpu.in_flight * static_cast<double>(vgpu.frame_gpu.count()) : 0;
      largest_step_ns_ = std::max({largest_step_ns_, static_cast<double>(std::max(used, reported).count()), in_flight});
    }
  }

  /// A vGPU with another weight is ahead of the centre, or behind it, by as much device time as before. What was served
  /// at a small weight would otherwise count many times over at a large one.
  void SetWeight(Service& service, std::uint32_t weight) const {
    service.v = center_ + (service.v - center_) * service.weight / weight;
    service.weight = weight;
  }

  /// Moves the centre, which is the weighted mean virtual time of the members. Members are the vGPUs that were active
  /// within `member`. A new member starts at the centre, without credit for the time before.
  ///
  /// A member that lags keeps a claim to catch up. The claim is at most `lag` of device time and two of the largest
  /// recent steps: with the steps, a long frame of another vGPU never costs a member its claim. A member that competes
  /// without a pause keeps its whole claim. It lags only because frames can't be preempted, and the others wait until
  /// it has caught up, which takes longer than a step is remembered.
  ///
  /// The claim is also limited in relation to the member that is farthest ahead. The centre of a heavy member that lags
  /// and a light one is nearly the heavy one's virtual time. Without that limit, a light member that used the idle time
  /// of the heavy one would wait until all of that time was made up for.
  void Recentre(const PolicyInput& input) {
    double weights = 0;
    double ahead = std::numeric_limits<double>::lowest();
    for (const VgpuView& vgpu : input.vgpus) {
      Service& service = ServiceOf(vgpu);
      const bool member = Competes(vgpu, input.now, params_.member);
      if (member && !service.member) service.v = std::max(service.v, center_);
      service.member = member;
      if (!member) continue;
      weights += vgpu.weight;
      ahead = std::max(ahead, service.v - 2 * largest_step_ns_ / vgpu.weight);  // minus the frames that can't be
                                                                                // preempted
    }
    member_weights_ = weights;
    if (weights == 0) return;
    const double claim = static_cast<double>(params_.lag.count()) + 2 * largest_step_ns_;
    const double floor = center_ - claim / weights;
    double center = 0;
    for (const VgpuView& vgpu : input.vgpus) {
      Service& service = ServiceOf(vgpu);
      if (!service.member) continue;
      if (!KeepsClaim(vgpu, input)) service.v = std::max({service.v, floor, ahead - claim / vgpu.weight});
      center += service.v * (vgpu.weight / weights);
    }
    center_ = center;
  }

  /// Work-conserving: only vGPUs that compete at this moment hold others back. A vGPU that is held by its cap is
  /// ignored, since it could not use the time kept for it.
  Front FrontOf(const PolicyInput& input) const {
    double weights = 0;
    double least = std::numeric_limits<double>::max();
    bool awake = false;
    for (const VgpuView& vgpu : input.vgpus) {
      awake |= Competes(vgpu, input.now, kAwake);
      if (!HoldsOthersBack(vgpu, input)) continue;
      weights += vgpu.weight;
      least = std::min(least, ServiceOf(vgpu).v);
    }
    if (weights > 0) {
      const Duration until_next = params_.quantum + input.late;
      return {true, true, least + static_cast<double>(until_next.count()) / weights, 0};
    }
    auto all_weights = static_cast<double>(input.resting.weights);
    for (const VgpuView& vgpu : input.vgpus) all_weights += vgpu.weight;
    return {false, awake, 0, static_cast<double>(params_.quantum.count()) / std::max(all_weights, 1.0)};
  }

  [[nodiscard]] bool HoldsOthersBack(const VgpuView& vgpu, const PolicyInput& input) const {
    if (vgpu.held || !vgpu.attached) return false;
    if (vgpu.waiting > 0) return true;
    if (vgpu.in_flight > 0) return !LetsOthersQueue(vgpu);
    return anticipation_.Expects(vgpu, input, ShareOf(vgpu));
  }
  /// Whether work of others may be queued behind the frame in flight of this vGPU. Its program waits for a vertical
  /// blank after the frame, so the device would be without work. Behind a long frame others would gain nothing.
  [[nodiscard]] static bool LetsOthersQueue(const VgpuView& vgpu) {
    return vgpu.blocks && vgpu.frame_gpu <= QueuedWork::kMost;
  }
  [[nodiscard]] bool KeepsClaim(const VgpuView& vgpu, const PolicyInput& input) const {
    return !vgpu.held && vgpu.attached && anticipation_.Persists(vgpu, input, ShareOf(vgpu));
  }

  [[nodiscard]] bool AnyComesSeldom(const PolicyInput& input) const {
    return std::ranges::any_of(input.vgpus, [this](const VgpuView& vgpu) {
      return ServiceOf(vgpu).member && anticipation_.ComesSeldom(vgpu, ShareOf(vgpu));
    });
  }

  [[nodiscard]] bool FreesDevice(const VgpuView& vgpu) const {
    return vgpu.in_flight > 0 && !anticipation_.CouldUse(vgpu, ShareOf(vgpu));
  }

  [[nodiscard]] double ShareOf(const VgpuView& vgpu) const { return vgpu.weight / std::max(member_weights_, 1.0); }

  Duration Allow(const VgpuView& vgpu, const Front& front) {
    const Service& service = ServiceOf(vgpu);
    const double v = service.member ? service.v : std::max(service.v, center_);
    const double lead = front.competing ? front.limit - v : front.least;
    return Duration{static_cast<std::int64_t>(lead * vgpu.weight)};
  }

  // Valid because Charge has visited all active vGPUs.
  Service& ServiceOf(const VgpuView& vgpu) { return services_.Seen(vgpu); }
  [[nodiscard]] const Service& ServiceOf(const VgpuView& vgpu) const { return services_.Seen(vgpu); }

  const ProportionalShareParams params_;
  const Anticipation anticipation_;
  QueuedWork work_;
  double center_ = 0;
  double member_weights_ = 0;
  // How long a vGPU may have to wait for work of another vGPU that passed the gate before it: the largest recent
  // charge, report, or work in flight of one vGPU. Reports count, since the report of a frame includes the turns of
  // other clients while the frame was on the device. Work in flight counts, since only the beginning of a long kernel
  // is reserved.
  double largest_step_ns_ = 0;
  SlotStates<Service> services_;
};

}  // namespace

std::unique_ptr<Policy> MakeProportionalShare(const ProportionalShareParams& params) {
  return std::make_unique<ProportionalShare>(params);
}

}  // namespace weir::core
