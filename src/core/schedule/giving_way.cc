// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/giving_way.h"

#include <algorithm>
#include <cmath>

namespace weir::core {
namespace {

/// The part of the device that is divided. On a device that is never idle frames wait for each other, so that frames of
/// the heavier vGPUs would be late, too.
constexpr double kDivided = 0.95;

/// An overload begins above the device, and ends below this part of it: costs vary.
constexpr double kEnds = 0.97;

/// A vGPU that could draw more is expected to reach this much of its present rate soon.
constexpr double kGrowth = 1.5;
constexpr double kGrowthLeast = 2;  // frames/s

/// A vGPU that gives way and reaches this part of the rate that is left to it would draw more if it could.
constexpr double kKeepsUp = 0.8;

/// No vGPU is slowed down further than to this part of its promise, so that its program remains usable and its costs
/// stay known.
constexpr double kLeastPart = 0.1;

/// Costs vary from frame to frame. A change of the interval below this part is not worth waking a sleeping program.
constexpr double kSame = 0.03;

double Ratio(Duration a, Duration b) { return SecondsOf(a) / SecondsOf(b); }

}  // namespace

Duration GivingWay::Promised(const VgpuView& view) const {
  if (view.promised > Duration{0}) return view.promised;
  return view.draws ? preset_ : Duration{0};
}

void GivingWay::See(Instant now, std::span<const VgpuView> views) {
  if (!wanted_) return;
  for (const VgpuView& view : views) {
    bool fresh = false;
    parts_.At(view, fresh);
  }
  if (now < next_) return;
  next_ = now + kEvery;
  Claim(now, views);
  Divide(views);
}

void GivingWay::Claim(Instant now, std::span<const VgpuView> views) {
  claims_.clear();
  claimed_ = least_ = 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const VgpuView& view = views[i];
    const Duration interval = Promised(view);
    const bool active = view.rate > 0 || Competes(view, now, seconds(1));
    if (interval <= Duration{0} || !view.attached || !active || view.loops_gpu <= Duration{0}) continue;
    const double promised = NeedOf(interval, view.loops_gpu, view.cap);
    if (promised <= 0) continue;  // nothing can be granted to a cap of zero, which overselling gives at times
    // A vGPU that gives way and draws as often as it may claims all that was promised. A claim by its present rate,
    // which is low because it gives way, would end the overload.
    const Duration longer = parts_.Seen(view).longer;
    const bool kept_back = longer > Duration{0} && (view.rate + 1) * SecondsOf(longer) >= kKeepsUp;
    const double soon = kept_back ? promised : SecondsOf(view.loops_gpu) * (kGrowth * view.rate + kGrowthLeast);
    const double least = std::min(kLeastPart * promised, soon);
    const double claim = std::max(std::min(promised, soon), least);
    claimed_ += claim;
    least_ += least;
    claims_.push_back({.id = view.id,
                       .index = i,
                       .weight = view.promised > Duration{0} ? view.weight : 0,
                       .need = claim - least,
                       .least = least});
  }
}

void GivingWay::Divide(std::span<const VgpuView> views) {
  // Where all weights are the same, users have set no order, and the device decides, as in VGRIS.
  const bool ordered = std::ranges::any_of(
      claims_, [this](const PromiseClaim& claim) { return claim.weight != claims_.front().weight; });
  if (ordered && claimed_ > (any_ ? kEnds : 1))
    Grant(claims_, std::max(kDivided - least_, 0.0));
  else
    claims_.clear();
  for (const VgpuView& view : views) parts_.Seen(view).claims = false;
  any_ = false;
  for (const PromiseClaim& claim : claims_) {
    const VgpuView& view = views[claim.index];
    Part& part = parts_.Seen(view);
    part.claims = true;
    const double granted = claim.granted + claim.least;
    const Duration wanted = FromSeconds(SecondsOf(view.loops_gpu) / granted);
    const bool gives_way = claim.gives_way() && Ratio(wanted, Promised(view)) > 1 + kSame;
    if (!gives_way)
      part.longer = Duration{0};
    else if (part.longer == Duration{0} || std::abs(Ratio(wanted, part.longer) - 1) > kSame)
      part.longer = wanted;
    any_ |= gives_way;
  }
  for (const VgpuView& view : views)
    if (Part& part = parts_.Seen(view); !part.claims) part.longer = Duration{0};
}

Duration GivingWay::IntervalOf(const VgpuView& view) const {
  return wanted_ ? std::max(Promised(view), parts_.Seen(view).longer) : Promised(view);
}

}  // namespace weir::core
