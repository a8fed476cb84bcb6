// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/promises_first.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weir::core {
namespace {

/// Bounds of frame credit, in frames or kernels: the most that a vGPU is owed, and the most that counts as served ahead
/// of time. They are small, so that a program that pauses, or draws more than promised, is soon judged by its present
/// behaviour.
constexpr double kOwedMost = 2;
constexpr double kHadAheadMost = 1;

/// A vGPU that has waited for this long is starved. Oversell promises a vGPU its ceiling within the same time.
constexpr Duration kKeptOutMost = milliseconds(200);

/// After the device has been idle for this long, a frame or kernel of any length is admitted.
constexpr Duration kIdleMost = milliseconds(4);

/// A longer kernel is admitted before its turn only when the device has been idle for kIdleMost.
constexpr Duration kShortMost = milliseconds(100);

/// Allowance that admits one frame.
constexpr Duration kOne{1};

/// Cost of a frame now. The mean alone follows a scene that has just become heavier too slowly.
Duration CostOf(const VgpuView& view) { return std::max(view.frame_gpu, view.recent_gpu); }

/// Interval between promised frames, or between the kernels of a promised share. Zero: no promise.
Duration IntervalOf(const VgpuView& view) {
  if (!view.share_promised || view.cap == Share{}) return view.promised;
  return FromSeconds(SecondsOf(CostOf(view)) / view.cap.Fraction());
}

}  // namespace

/// Returns whether a frame that used credit is being drawn.
bool PromisesFirst::Account(Instant now, std::span<const VgpuView> views) {
  const Instant before = std::exchange(last_, now);
  const Duration passed = std::max(now - before, Duration{0});
  on_device_ = std::max(on_device_ - passed, Duration{0});
  bool drawn = false;
  for (const VgpuView& view : views) {
    bool fresh = false;
    FrameCredit& credit = credits_.At(view, fresh);
    const Duration charged = fresh ? Duration{0} : view.used - credit.charged;
    // A vGPU that rested until the last decision has not waited, but its credit grew all the time.
    const bool rested = !fresh && credit.seen != before;
    const Duration unseen = rested ? std::max(now - credit.seen, Duration{0}) : passed;
    if (rested) credit.let_in = before;
    credit.seen = now;
    // A held vGPU can't have begun anything. Counting its charges would let a tenant with false charges keep the device
    // from others for longer than its own slice.
    if (credit.open) on_device_ += charged;
    credit.charged = view.used;
    credit.open = !view.held;
    if (fresh || view.waiting == 0 || view.held || charged > Duration{0}) credit.let_in = now;
    const Duration interval = IntervalOf(view);
    if (interval <= Duration{0}) continue;
    credit.draws |= view.promised > Duration{0} && charged > Duration{0} && credit.owed > 0;
    credit.draws &= view.in_flight > 0;
    drawn |= credit.draws;
    const double due = SecondsOf(unseen) / SecondsOf(interval);
    const double had = CostOf(view) > Duration{0} ? SecondsOf(charged) / SecondsOf(CostOf(view)) : 0;
    credit.owed = std::clamp(credit.owed + due - had, -kHadAheadMost, kOwedMost);
  }
  on_device_ = std::max(on_device_, Duration{0});
  if (on_device_ > Duration{0}) busy_until_ = now + on_device_;
  return drawn;
}

bool PromisesFirst::IsLent(const VgpuView& view, const TimeLeft& left) const {
  if (!view.held || left.of_ceiling <= Duration{0}) return false;
  return CostOf(view) <= lend_ || (lend_ > Duration{0} && last_ - busy_until_ >= kIdleMost);
}

/// Whether the vGPU has frame credit that it can use: not if it has no time left or has stopped drawing.
bool PromisesFirst::IsOwed(const VgpuView& view, bool lent) const {
  const Duration interval = IntervalOf(view);
  return interval > Duration{0} && (!view.held || lent) && Competes(view, last_, 2 * interval) &&
         credits_.Seen(view).owed > 0;
}

/// Time from now until its next frame or kernel must begin, so that it ends when it is due.
Duration PromisesFirst::StartBy(const VgpuView& view) const {
  return FromSeconds((1 - credits_.Seen(view).owed) * SecondsOf(IntervalOf(view))) - CostOf(view);
}

Duration PromisesFirst::StarvedFor(const VgpuView& view) const {
  const Duration waited = last_ - credits_.Seen(view).let_in;
  return waited >= kKeptOutMost ? waited : Duration{0};
}

/// Whether the vGPU may go before others that the order of the policy prefers, so that the device has work.
bool PromisesFirst::MayFill(const VgpuView& view) const {
  return CostOf(view) <= kShortMost || last_ - busy_until_ >= kIdleMost;
}

/// Fills `queue_` with the waiting vGPUs in order, followed by those that do not wait. Returns whether a vGPU is owed a
/// frame or draws one (`drawn`). If none is, the order of the policy holds, and no vGPU counts as starved.
bool PromisesFirst::Queue(std::span<const VgpuView> views, std::span<const TimeLeft> left,
                          std::span<const Verdict> verdicts, bool drawn) {
  bool any = drawn;
  queue_.clear();
  for (std::size_t i = 0; i < views.size(); ++i) {
    const bool lent = IsLent(views[i], left[i]);
    const bool owed = IsOwed(views[i], lent);
    any |= owed;
    queue_.push_back({.index = i,
                      .id = views[i].id,
                      .owed = owed,
                      .lent = lent,
                      .start_by = owed ? StartBy(views[i]) : Duration{0},
                      .lead = SecondsOf(verdicts[i].allowance) / views[i].weight});
  }
  if (any)
    for (Place& place : queue_) place.starved_for = StarvedFor(views[place.index]);
  const auto idle =
      std::partition(queue_.begin(), queue_.end(), [&](const Place& p) { return views[p.index].waiting > 0; });
  std::sort(queue_.begin(), idle, [](const Place& a, const Place& b) {
    return std::tuple(b.starved_for, !a.owed, a.lent, a.start_by, b.lead, a.id) <
           std::tuple(a.starved_for, !b.owed, b.lent, b.start_by, a.lead, b.id);
  });
  return any;
}

void PromisesFirst::Reorder(Instant now, std::span<const VgpuView> views, std::span<TimeLeft> left,
                            std::span<Verdict> verdicts) {
  if (ahead_ <= Duration{0}) return;
  const bool drawn = Account(now, views);
  const bool any = Queue(views, left, verdicts, drawn);
  Duration on_device = on_device_;
  bool first = true;
  for (const Place& place : queue_) {
    const VgpuView& view = views[place.index];
    TimeLeft& mine = left[place.index];
    Duration& allowance = verdicts[place.index].allowance;
    const bool starved_for = place.starved_for > Duration{0};
    const bool at_once = first && !place.lent && (starved_for || (place.owed && !drawn));
    if (place.lent) {
      mine.lent = view.waiting > 0 && on_device < ahead_;
      credits_.Seen(view).open = mine.lent;
      allowance = mine.lent ? kOne : std::min(allowance, Duration{0});
    } else if (any && !at_once && (on_device >= ahead_ || (mine.gives_way && !place.owed))) {
      allowance = std::min(allowance, Duration{0});
    } else if (place.owed || starved_for) {
      allowance = mine.of_cap;
    } else if (!any && view.waiting > 0 && on_device < ahead_ && MayFill(view)) {
      allowance = std::max(allowance, kOne);
    }
    if (view.waiting == 0 || (!mine.lent && std::min(allowance, mine.of_cap) <= Duration{0})) continue;
    on_device += view.frame_gpu;
    first = false;
  }
}

}  // namespace weir::core
