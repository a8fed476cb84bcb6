// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/promises_first.h"

#include <algorithm>
#include <tuple>

namespace weir::core {
namespace {

/// Frames: so many may be made up for, and so many drawn before their time count. A program that pauses, or draws more
/// than was promised, is soon judged by what it does now.
constexpr double kOwedMost = 2;
constexpr double kDrawnAheadMost = 1;

/// A ceiling that is needed is promised within as long.
constexpr Duration kKeptOutMost = milliseconds(200);

/// Lets one frame in.
constexpr Duration kOne{1};

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
    if (view.promised <= Duration{0}) continue;
    creditor.draws |= charged > Duration{0} && creditor.frames > 0;
    creditor.draws &= view.in_flight > 0;
    any |= creditor.draws;
    const double due = SecondsOf(passed) / SecondsOf(view.promised);
    const double drawn = view.frame_gpu > Duration{0} ? SecondsOf(charged) / SecondsOf(view.frame_gpu) : 0;
    creditor.frames = std::clamp(creditor.frames + due - drawn, -kDrawnAheadMost, kOwedMost);
  }
  on_device_ = std::max(on_device_, Duration{0});
  return any;
}

/// Frames; nothing, where it has no time left for them or has stopped drawing.
double PromisesFirst::OwedTo(const VgpuView& view) {
  if (view.promised <= Duration{0} || view.held || !Competes(view, last_, 2 * view.promised)) return 0;
  bool fresh = false;
  return std::max(creditors_.At(view, fresh).frames, 0.0);
}

Duration PromisesFirst::KeptOut(const VgpuView& view) {
  bool fresh = false;
  const Duration waited = last_ - creditors_.At(view, fresh).let_in;
  return waited >= kKeptOutMost ? waited : Duration{0};
}

void PromisesFirst::Reorder(Instant now, std::span<const VgpuView> views, std::span<const Duration> left,
                            std::span<Verdict> verdicts) {
  if (ahead_ <= Duration{0}) return;
  bool any = Account(now, views);
  queue_.clear();
  for (std::size_t i = 0; i < views.size(); ++i) {
    queue_.push_back({i, OwedTo(views[i]), KeptOut(views[i])});
    any |= queue_.back().owed > 0;
  }
  // Who waits before who may yet come.
  std::ranges::sort(queue_, {}, [&](const Place& place) {
    const VgpuView& view = views[place.index];
    const double lead = SecondsOf(verdicts[place.index].allowance) / view.weight;
    return std::tuple(view.waiting == 0, -place.kept_out, -place.owed, -lead, view.id);
  });
  Duration on_device = on_device_;
  bool first = true;
  for (const Place& place : queue_) {
    const VgpuView& view = views[place.index];
    const Duration mine = left[place.index];
    Duration& allowance = verdicts[place.index].allowance;
    const bool goes = place.owed > 0 || place.kept_out > Duration{0};
    if (any && on_device >= ahead_ && !(first && goes))
      allowance = std::min(allowance, Duration{0});
    else if (goes)
      allowance = mine;
    else if (!any && view.waiting > 0 && on_device < ahead_)
      allowance = std::max(allowance, kOne);
    if (view.waiting == 0 || std::min(allowance, mine) <= Duration{0}) continue;
    on_device += view.frame_gpu;
    first = false;
  }
}

}  // namespace weir::core
