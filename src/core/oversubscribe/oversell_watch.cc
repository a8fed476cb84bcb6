// SPDX-License-Identifier: Apache-2.0
// What overselling observes of vGPUs: use, need and claim of the last second (Measure), and for reports which vGPUs are
// overloaded and which promises are broken (Judge). Decisions about caps are in oversell.cc.
#include <bit>
#include <cmath>

#include "core/oversubscribe/oversell.h"

namespace weir::core {
namespace {

/// A vGPU still lends cap if it was limited in at most kSeldom stages of the last second and used at most kWellBelow of
/// its cap.
constexpr int kSeldom = 2;
constexpr double kWellBelow = 0.8;

/// A vGPU is promised its ceiling within two stages. In more stages without it, the promise is broken.
constexpr int kDeniedMax = 2;

/// Frames/s. A promised rate is stored as an interval of whole nanoseconds: 30 becomes 30.0000003. Without this slack,
/// 28 frames, which the tolerance accepts, would be too few.
constexpr double kRateRounding = 1e-3;

}  // namespace

void Oversell::See(const VgpuView& view, Watched& member) const {
  ++member.looks;
  ++member.stage_looks;
  member.flying_looks += view.in_flight > 0 ? 1 : 0;
  if (view.waiting == 0) return;
  ++member.waiting_looks;
  ++member.stage_waits;
  member.limited |= view.held;
}

bool Oversell::Watched::Lends() const {
  if (stages_unlimited >= static_cast<int>(kMarks)) return true;
  constexpr std::uint32_t kLastSecond = (1U << kMarks) - 1;
  return promised > 0 && std::popcount(limited_then & kLastSecond) <= kSeldom && use <= kWellBelow * cap;
}

/// Measures the use over the last second, and the part of the use that the promise needs.
void Oversell::Measure(Instant now, const VgpuView& view, Watched& member) const {
  const std::size_t place = member.marks % Watched::kMarks;
  const std::size_t oldest = member.marks < Watched::kMarks ? 0 : place;
  if (member.marks > 0) {
    const double span = SecondsOf(now - member.marked_at[oldest]);
    if (span > 0) member.use = std::max(SecondsOf(view.used - member.marked[oldest]) / span, 0.0);
  }
  if (view.in_flight > 0 || (member.marks > 0 && view.used > member.LastMarked())) member.used_at = now;
  member.marked_at[place] = now;
  member.marked[place] = view.used;
  ++member.marks;
  member.rate = view.rate;
  member.promised = view.promised > Duration{0} ? 1 / SecondsOf(view.promised) : 0;
  const bool enough = member.promised > 0 && member.rate > member.promised;
  member.need = enough ? member.use * member.promised / member.rate : member.use;
  // A vGPU with a promised share that was limited in this second has no cap to spare: it may have just returned from
  // idleness, and want its share.
  const bool content = member.stages_unlimited >= static_cast<int>(Watched::kMarks);
  if (member.promised == 0 && !content) member.need = std::max(member.need, member.cap);
  member.lateness = member.promised > 0 ? std::clamp(1 - member.rate / member.promised, -1.0, 1.0) : 0;
  // Rates count whole frames over the last second. When a scene has just become heavier, the cost of its frames
  // predicts its need sooner.
  const bool late = member.rate < member.promised - 0.5;  // half a frame: helps before the tolerance is used up
  const double foreseen = member.promised * SecondsOf(std::max(view.frame_gpu, view.recent_gpu));
  const bool short_of_it = member.limited && foreseen > member.cap;
  const bool held_up = late && (member.limited || member.stage_waits > 0);  // it is late, and not by its own pauses
  if (short_of_it || held_up) member.need = std::max(member.need, std::min(foreseen, member.ceiling));
  member.claim = member.ceiling;
  if (member.promised > 0) {
    // Uses the rate of the last second where the cost of frames is misleading: with several windows, or with frames
    // that take longer than they cost.
    constexpr double kFasterAtMost = 4;
    const double slow = late ? std::min(member.promised / std::max(member.rate, 1e-3), kFasterAtMost) : 1;
    // Without any frame there is no prediction, and the ceiling remains the claim.
    if (foreseen > 0) member.claim = std::max(foreseen, late ? member.cap * slow : 0) * (1 + settings_.margin);
  }
  member.needy = member.sale != Sale::kBestEffort && member.limited && (member.promised == 0 || late || short_of_it);
}

/// Advances to the part of the span that contains `now`. The needs of parts that the span has left are cleared.
void Oversell::BeginPart(Instant now) {
  for (std::size_t i = 0; i < Watched::kParts && part_ > Duration{0} && now - part_began_ >= part_; ++i) {
    part_began_ += part_;
    part_now_ = (part_now_ + 1) % Watched::kParts;
    for (Watched& member : members_)
      if (member.needed[part_now_] >= 0) member.needed[part_now_] = 0;
  }
  if (now - part_began_ >= part_) part_began_ = now;
}

double Oversell::PeakLoad() const {
  std::array<double, Watched::kParts> sums{};
  for (const Watched& member : members_) {
    if (member.sale == Sale::kBestEffort) continue;
    const double most = std::max(*std::ranges::max_element(member.needed), 0.0F);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double then = member.needed[i];
      sums[i] += then >= 0 ? then : most;
    }
  }
  return *std::ranges::max_element(sums);
}

void Oversell::Report(Instant now, Duration span, std::span<const VgpuView> views, std::vector<OversellNote>& notes) {
  double needed = 0, ceilings = 0;
  load_ = 0;
  BeginPart(now);
  Duration used{};
  for (const VgpuView& view : views)
    if (const Watched* member = Find(view.id)) used += view.used - member->used;
  for (const VgpuView& view : views) {
    Watched* member = Find(view.id);
    if (member == nullptr) continue;
    Judge(span, used - (view.used - member->used), view, *member, notes);
    const bool best_effort = member->sale == Sale::kBestEffort;
    const double paid_for = best_effort ? SecondsOf(view.used - member->used) / SecondsOf(span) : member->ceiling;
    account_.Book(prices_, paid_for, best_effort, span, member->busy_stages > 0, member->broken);
    if (!best_effort) {
      const double need = member->promised > 0 ? member->need : member->use;
      load_ += need;
      float& most = member->needed[part_now_];
      most = part_ > Duration{0} ? std::max(most, static_cast<float>(need)) : static_cast<float>(need);
      if (view.attached) needed += need, ceilings += member->ceiling;
    }
    member->used = view.used;
    member->cap_seconds = 0;
    member->stages = member->limited_stages = member->denied_stages = member->busy_stages = 0;
    member->looks = member->waiting_looks = member->flying_looks = 0;
    member->frames = view.frames;
    member->broken_frames = view.broken_frames;
  }
  peak_ = PeakLoad();
  account_.BookDevice(prices_, span);
  if (ceilings > 0) expected_use_ = 0.8 * expected_use_ + 0.2 * needed / ceilings;
}

/// Whether the frames of the vGPU were late because they waited for others, at the gate or behind it
/// (FramePromise::BrokenBy). If no frame ended, whether one waits at the gate, or on the device while others use it.
bool Oversell::WaitedForOthers(Duration span, const VgpuView& view, Duration others, const Watched& member) {
  constexpr std::uint64_t kSome = 10;  // one frame in ten: fewer do not explain a rate that is too low
  const std::uint64_t frames = view.frames - member.frames;
  if (frames > 0) return (view.broken_frames - member.broken_frames) * kSome >= frames;
  const bool stalls = member.flying_looks * 2 > member.looks && view.used - member.used < span / 2 && others > span / 2;
  return member.limited_stages > 0 || member.waiting_looks * 10 > member.looks || stalls;
}

/// A vGPU is overloaded if its rate is below the promised one, or, with a promised share, if its use is above the line
/// while its cap is below the ceiling. A vGPU at its ceiling has what was sold.
/// `others`: the GPU time that others used in the report.
void Oversell::Judge(Duration span, Duration others, const VgpuView& view, Watched& member,
                     std::vector<OversellNote>& notes) {
  const double use = SecondsOf(view.used - member.used) / SecondsOf(span);
  const double cap = member.cap_seconds / SecondsOf(span);
  const bool best_effort = member.sale == Sale::kBestEffort;
  const bool busy = member.stages > 0 && member.busy_stages >= member.stages - 1;  // active in all stages but one at
                                                                                   // most
  const bool waited = WaitedForOthers(span, view, others, member);
  const bool all_of_ceiling = use >= (1 - settings_.rate_tolerance) * member.ceiling;
  const bool below_ceiling = cap < (1 - settings_.rate_tolerance) * member.ceiling;
  const bool slow =
      member.promised > 0 && member.rate < member.promised * (1 - settings_.rate_tolerance) - 0.5 - kRateRounding;
  member.late = busy && slow && waited && !all_of_ceiling;
  member.over = use > settings_.overload_line * cap && member.limited_stages > 0 ? member.over + 1 : 0;
  const bool starved = member.promised == 0 && below_ceiling && member.over >= settings_.overload_reports;
  const bool denied =
      member.promised == 0 && busy && !all_of_ceiling &&
      (member.denied_stages > kDeniedMax || (member.waiting_looks * 2 > member.looks &&
                                             use < (1 - 2 * settings_.rate_tolerance) * std::min(cap, member.ceiling)));
  const bool overloaded = !best_effort && (member.late || starved);
  const bool at_ceiling = busy && slow && waited && all_of_ceiling;
  const bool broken = !best_effort && (member.late || denied);
  if (overloaded && !member.overloaded) notes.push_back(NoteOf(OversellNote::Kind::kOverload, member));
  if (at_ceiling && !member.at_ceiling) notes.push_back(NoteOf(OversellNote::Kind::kAtCeiling, member));
  if (broken != member.broken)
    notes.push_back(NoteOf(broken ? OversellNote::Kind::kBroken : OversellNote::Kind::kKept, member));
  member.overloaded = overloaded;
  member.at_ceiling = at_ceiling;
  member.broken = broken;
}

}  // namespace weir::core
