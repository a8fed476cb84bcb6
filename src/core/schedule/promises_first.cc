// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/promises_first.h"

#include <algorithm>
#include <tuple>

namespace weir::core {
namespace {

/// Frames, or kernels: so many may be made up for, and so many had before their time count. A program that pauses, or
/// draws more than was promised, is soon judged by what it does now.
constexpr double kOwedMost = 2;
constexpr double kHadAheadMost = 1;

/// A ceiling that is needed is promised within as long.
constexpr Duration kKeptOutMost = milliseconds(200);

/// A device that has been idle for so long is lent for frames and kernels of any length.
constexpr Duration kIdleMost = milliseconds(4);

/// Lets one frame in.
constexpr Duration kOne{1};

/// What its frames cost now: of a scene that has just become heavier the mean of the last ones says it late.
Duration CostOf(const VgpuView& view) { return std::max(view.frame_gpu, view.recent_gpu); }

/// Between the frames that it was promised, or the kernels of its share. Zero: nothing was promised.
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
  bool drawn = false;
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
    creditor.draws |= view.promised > Duration{0} && charged > Duration{0} && creditor.owed > 0;
    creditor.draws &= view.in_flight > 0;
    drawn |= creditor.draws;
    const double due = SecondsOf(passed) / SecondsOf(interval);
    const double had = CostOf(view) > Duration{0} ? SecondsOf(charged) / SecondsOf(CostOf(view)) : 0;
    creditor.owed = std::clamp(creditor.owed + due - had, -kHadAheadMost, kOwedMost);
  }
  on_device_ = std::max(on_device_, Duration{0});
  if (on_device_ > Duration{0}) busy_until_ = now + on_device_;
  return drawn;
}

bool PromisesFirst::IsLent(const VgpuView& view, const TimeLeft& left) const {
  if (!view.held || left.of_ceiling <= Duration{0}) return false;
  return CostOf(view) <= lend_ || (lend_ > Duration{0} && last_ - busy_until_ >= kIdleMost);
}

/// Not, where it has no time left or has stopped drawing.
bool PromisesFirst::IsOwed(const VgpuView& view, bool lent) const {
  const Duration interval = IntervalOf(view);
  return interval > Duration{0} && (!view.held || lent) && Competes(view, last_, 2 * interval) &&
         creditors_.Seen(view).owed > 0;
}

/// Within how long its next one must begin, to be done when it is due.
Duration PromisesFirst::StartBy(const VgpuView& view) const {
  return FromSeconds((1 - creditors_.Seen(view).owed) * SecondsOf(IntervalOf(view))) - CostOf(view);
}

Duration PromisesFirst::KeptOut(const VgpuView& view) const {
  const Duration waited = last_ - creditors_.Seen(view).let_in;
  return waited >= kKeptOutMost ? waited : Duration{0};
}

/// Who waits, in order, before who may yet come.
void PromisesFirst::Queue(std::span<const VgpuView> views, std::span<const TimeLeft> left,
                          std::span<const Verdict> verdicts) {
  queue_.clear();
  for (std::size_t i = 0; i < views.size(); ++i) {
    const bool lent = IsLent(views[i], left[i]);
    const bool owed = IsOwed(views[i], lent);
    queue_.push_back({.index = i,
                      .id = views[i].id,
                      .owed = owed,
                      .lent = lent,
                      .start_by = owed ? StartBy(views[i]) : Duration{0},
                      .kept_out = KeptOut(views[i]),
                      .lead = SecondsOf(verdicts[i].allowance) / views[i].weight});
  }
  const auto idle =
      std::partition(queue_.begin(), queue_.end(), [&](const Place& p) { return views[p.index].waiting > 0; });
  std::sort(queue_.begin(), idle, [](const Place& a, const Place& b) {
    return std::tuple(b.kept_out, !a.owed, a.lent, a.start_by, b.lead, a.id) <
           std::tuple(a.kept_out, !b.owed, b.lent, b.start_by, a.lead, b.id);
  });
}

void PromisesFirst::Reorder(Instant now, std::span<const VgpuView> views, std::span<TimeLeft> left,
                            std::span<Verdict> verdicts) {
  if (ahead_ <= Duration{0}) return;
  const bool drawn = Account(now, views);
  Queue(views, left, verdicts);
  const bool any = drawn || std::ranges::any_of(queue_, &Place::owed);
  Duration on_device = on_device_;
  bool first = true;
  for (const Place& place : queue_) {
    const VgpuView& view = views[place.index];
    TimeLeft& mine = left[place.index];
    Duration& allowance = verdicts[place.index].allowance;
    const bool kept_out = place.kept_out > Duration{0};
    const bool at_once = first && !place.lent && (kept_out || (place.owed && !drawn));
    if (place.lent) {
      mine.lent = view.waiting > 0 && on_device < ahead_;
      creditors_.Seen(view).open = mine.lent;
      allowance = mine.lent ? kOne : std::min(allowance, Duration{0});
    } else if (any && on_device >= ahead_ && !at_once) {
      allowance = std::min(allowance, Duration{0});
    } else if (place.owed || kept_out) {
      allowance = mine.of_cap;
    } else if (!any && view.waiting > 0 && on_device < ahead_) {
      allowance = std::max(allowance, kOne);
    }
    if (view.waiting == 0 || (!mine.lent && std::min(allowance, mine.of_cap) <= Duration{0})) continue;
    on_device += view.frame_gpu;
    first = false;
  }
}

}  // namespace weir::core
