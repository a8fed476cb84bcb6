// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/promises_first.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weir::core {
namespace {

/// Frames: so many may be made up for, and so many drawn before their time count. A program that pauses, or draws more
/// than was promised, is soon judged by what it does now.
constexpr double kOwedMost = 2;
constexpr double kDrawnAheadMost = 1;
/// Of a share, what falls due in a stage, where its kernels are shorter.
constexpr Duration kShareOwedFor = milliseconds(100);
/// So many kernels owed, a share waits no longer for a moment when one of them makes nobody's frame late.
constexpr double kOverdue = 1;

/// A ceiling that is needed is promised within as long.
constexpr Duration kKeptOutMost = milliseconds(200);

/// Lets one frame in.
constexpr Duration kOne{1};

/// What its frames cost now: of a scene that has just become heavier the mean of the last ones says it late.
Duration CostOf(const VgpuView& view) { return std::max(view.frame_gpu, view.recent_gpu); }

/// It is sold what nobody wants, without a promise.
bool BestEffort(const VgpuView& view) {
  return view.promised == Duration{0} && !view.share_promised && view.ceiling > Share{};
}

/// Between the frames that it was promised, or the kernels; zero: none.
Duration IntervalOf(const VgpuView& view) {
  if (!view.share_promised || view.cap == Share{}) return view.promised;
  return FromSeconds(SecondsOf(CostOf(view)) / view.cap.Fraction());
}

}  // namespace

/// Returns whether a frame is drawn that was owed.
bool PromisesFirst::Account(Instant now, std::span<const VgpuView> views) {
  const Duration passed = std::max(now - last_, Duration{0});
  last_ = now;
  on_device_ = std::max(on_device_ - passed, Duration{0});
  bool any = false;
  for (const VgpuView& view : views) {
    bool fresh = false;
    Creditor& creditor = creditors_.At(view, fresh);
    const Duration charged = fresh ? Duration{0} : view.used - creditor.charged;
    // Who was held can't have begun anything. Else a tenant that charges itself what it likes would keep the device
    // from others for longer than its own slice.
    if (creditor.open) on_device_ += charged;
    creditor.charged = view.used;
    creditor.open = !view.held;
    if (fresh || view.waiting == 0 || view.held || charged > Duration{0}) creditor.let_in = now;
    const Duration interval = IntervalOf(view);
    if (interval <= Duration{0}) continue;
    creditor.draws |= charged > Duration{0} && creditor.frames > 0;
    creditor.draws &= view.in_flight > 0;
    any |= creditor.draws;
    const double due = SecondsOf(passed) / SecondsOf(interval);
    const double drawn = CostOf(view) > Duration{0} ? SecondsOf(charged) / SecondsOf(CostOf(view)) : 0;
    const double stage = SecondsOf(kShareOwedFor) / SecondsOf(interval);
    const double most = view.share_promised ? std::max(kOwedMost, stage) : kOwedMost;
    creditor.frames = std::clamp(creditor.frames + due - drawn, -kDrawnAheadMost, most);
  }
  on_device_ = std::max(on_device_, Duration{0});
  return any;
}

/// Frames or kernels; nothing, where it has stopped drawing.
double PromisesFirst::OwedTo(const VgpuView& view) {
  const Duration interval = IntervalOf(view);
  if (interval <= Duration{0} || !Competes(view, last_, 2 * interval)) return 0;
  bool fresh = false;
  return std::max(creditors_.At(view, fresh).frames, 0.0);
}

Duration PromisesFirst::KeptOut(const VgpuView& view) {
  bool fresh = false;
  const Duration waited = last_ - creditors_.At(view, fresh).let_in;
  return waited >= kKeptOutMost ? waited : Duration{0};
}

/// How long the device may be kept from the next frame of one that was promised frames and is not owed one: until it is
/// due, or until its program should ask for it, whichever is later.
void PromisesFirst::Await(std::span<const VgpuView> views, std::span<const TimeLeft> left) {
  soonest_ = next_ = {};
  for (std::size_t i = 0; i < views.size(); ++i) {
    const VgpuView& view = views[i];
    if (view.promised <= Duration{0} || view.in_flight > 0 || !Competes(view, last_, 2 * view.promised)) continue;
    if (view.held && left[i].of_ceiling <= Duration{0}) continue;
    bool fresh = false;
    const double owed = creditors_.At(view, fresh).frames;
    const Duration thinks = last_ - view.last_active;
    if (view.waiting == 0 && thinks > 2 * view.frame_think) continue;  // it may not come at all
    const Duration asks = view.waiting > 0 ? Duration{0} : std::max(view.frame_think - thinks, Duration{0});
    const Duration slack = std::max((view.promised - CostOf(view) - view.frame_think) / 2, Duration{0});
    const Awaited awaited{i, std::max(asks, slack - FromSeconds(owed * SecondsOf(view.promised)))};
    if (awaited.within < soonest_.within)
      next_ = std::exchange(soonest_, awaited);
    else if (awaited.within < next_.within)
      next_ = awaited;
  }
}

void PromisesFirst::Reorder(Instant now, std::span<const VgpuView> views, std::span<TimeLeft> left,
                            std::span<Verdict> verdicts) {
  if (ahead_ <= Duration{0}) return;
  bool any = Account(now, views);
  const bool drawn = any;
  Await(views, left);
  queue_.clear();
  for (std::size_t i = 0; i < views.size(); ++i) {
    const bool lent = views[i].held && left[i].of_ceiling > Duration{0} && CostOf(views[i]) <= lend_;
    const bool may_go = !views[i].held || lent;
    queue_.push_back({i, may_go ? OwedTo(views[i]) : 0, KeptOut(views[i]), lent});
    any |= queue_.back().owed > 0;
  }
  // Who waits before who may yet come.
  std::ranges::sort(queue_, {}, [&](const Place& place) {
    const VgpuView& view = views[place.index];
    const double lead = SecondsOf(verdicts[place.index].allowance) / view.weight;
    // A share is had over a second, a frame at its time. Who goes beyond its cap comes after those who don't.
    const int rank = place.owed <= 0 ? 4 : (place.lent ? 2 : 0) + (view.promised > Duration{0} ? 0 : 1);
    return std::tuple(view.waiting == 0, -place.kept_out, rank, place.lent, -place.owed, -lead, view.id);
  });
  Duration on_device = on_device_;
  bool first = true;
  for (const Place& place : queue_) {
    const VgpuView& view = views[place.index];
    const Duration mine = left[place.index].of_cap;
    Duration& allowance = verdicts[place.index].allowance;
    const bool goes = !place.lent && (place.owed > 0 || place.kept_out > Duration{0});
    const Awaited& awaited = soonest_.index == place.index ? next_ : soonest_;
    const Duration cost = CostOf(view);
    const bool exempt = place.kept_out > Duration{0}  ? !BestEffort(view)
                        : view.promised > Duration{0} ? place.owed > 0
                                                      : place.owed >= kOverdue;
    const bool fits = exempt || cost <= ahead_ || on_device + cost <= awaited.within;
    // Beside what is drawn already only what is short, or has been kept out for too long, is let in at once.
    const bool at_once =
        first && goes && (place.kept_out > Duration{0} || (!drawn && (view.promised > Duration{0} || cost <= ahead_)));
    if (!fits) {
      allowance = std::min(allowance, Duration{0});
    } else if (place.lent) {
      bool fresh = false;
      left[place.index].lent = view.waiting > 0 && on_device < ahead_;
      creditors_.At(view, fresh).open = left[place.index].lent;
      allowance = left[place.index].lent ? kOne : std::min(allowance, Duration{0});
    } else if (any && on_device >= ahead_ && !at_once) {
      allowance = std::min(allowance, Duration{0});
    } else if (goes) {
      allowance = mine;
    } else if (!any && view.waiting > 0 && on_device < ahead_) {
      allowance = std::max(allowance, kOne);
    }
    if (view.waiting == 0 || (!left[place.index].lent && std::min(allowance, mine) <= Duration{0})) continue;
    on_device += view.frame_gpu;
    first = false;
  }
}

}  // namespace weir::core
