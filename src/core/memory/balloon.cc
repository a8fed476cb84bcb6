// SPDX-License-Identifier: Apache-2.0
#include "core/memory/balloon.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace weir::core {
namespace {

double PerMebibyte(Bytes bytes) { return static_cast<double>(bytes.count) / static_cast<double>(MiB(1).count); }

/// The longest copy that is believed when it is reported at its end.
constexpr Duration kCopyTimeMax = seconds(10);

/// Growth of a total since the last look; a total that fell has been restarted from zero.
Duration GrownBy(Duration& before, Duration total) {
  const Duration from = std::exchange(before, total);
  return std::max(total >= from ? total - from : total, Duration{});
}

}  // namespace

const char* NameOf(MemoryPressure pressure) {
  switch (pressure) {
    case MemoryPressure::kLow: return "low";
    case MemoryPressure::kMiddle: return "middle";
    case MemoryPressure::kHigh: return "high";
  }
  return "unknown";
}

const char* NameOf(BalloonNote::Kind kind) {
  switch (kind) {
    case BalloonNote::Kind::kGranted: return "granted";
    case BalloonNote::Kind::kPartly: return "partly-granted";
    case BalloonNote::Kind::kHas: return "has-it";
    case BalloonNote::Kind::kAtMaximum: return "refused-at-maximum";
    case BalloonNote::Kind::kOverhead: return "refused-overhead";
    case BalloonNote::Kind::kJustShrunk: return "refused-just-shrunk";
    case BalloonNote::Kind::kThrash: return "refused-thrash";
    case BalloonNote::Kind::kShrunkIdle: return "shrunk-idle";
    case BalloonNote::Kind::kShrunkOverhead: return "shrunk-overhead";
    case BalloonNote::Kind::kBounds: return "bounds";
    case BalloonNote::Kind::kPressure: return "pressure";
  }
  return "unknown";
}

Result<PolicyParams> CheckBalloonParams(const PolicyParams& given) {
  for (const auto& [name, value] : given)
    if (std::ranges::find(kBalloonParams, name, &PolicyParam::name) == kBalloonParams.end()) {
      std::string known;
      for (const PolicyParam& param : kBalloonParams)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", param.name);
      return Fail(Errc::kInvalidArgument, fmt::format("elastic memory has no parameter '{}'; known: {}", name, known));
    }
  WEIR_TRY(PolicyParams params, CheckParams(kBalloonEntry, given));
  if (const auto set = ParamsFrom<BalloonParams>(params); set.low_line > set.high_line)
    return Fail(Errc::kInvalidArgument,
                fmt::format("low_line {} is above high_line {}; lower the one or raise the other", set.low_line,
                            set.high_line));
  return params;
}

Balloon::Balloon(const PolicyParams& params, const DeviceMemory& device)
    : params_(params),
      settings_(ParamsFrom<BalloonParams>(params)),
      steal_max_(settings_.steal_max > 0 ? settings_.steal_max : 100.0 * std::max(device.cpus, 1U)),
      copy_max_(settings_.copy_max > 0 ? settings_.copy_max : 100.0 / std::max(device.cpus, 1U)),
      cpus_(std::max(device.cpus, 1U)),
      arena_(device.slots, settings_.layout, device.slot) {}

// -- Members ---------------------------------------------------------------------------------------------------------

const Balloon::Ballooned* Balloon::Find(VgpuId id) const {
  const auto found = std::ranges::lower_bound(members_, id, {}, &Ballooned::id);
  return found != members_.end() && found->id == id ? &*found : nullptr;
}
Balloon::Ballooned* Balloon::Find(VgpuId id) { return const_cast<Ballooned*>(std::as_const(*this).Find(id)); }

std::uint32_t Balloon::MinOf(VgpuId id) const {
  const Ballooned* member = Find(id);
  return member == nullptr ? 0 : member->min;
}
std::uint32_t Balloon::MaxOf(VgpuId id) const {
  const Ballooned* member = Find(id);
  return member == nullptr ? 0 : member->max;
}

std::uint64_t Balloon::guaranteed() const {
  std::uint64_t sum = 0;
  for (const Ballooned& member : members_) sum += member.min;
  return sum;
}

/// Returns the minimum as `first` and the maximum as `count`, in slots. Both are rounded up to whole slots, as a fixed
/// limit is.
Result<SlotRange> Balloon::Bounds(VgpuId id, Bytes min, Bytes max) const {
  const std::uint32_t least = arena_.SlotsFor(min);
  std::uint32_t most = max.count == 0 ? arena_.slots() : std::min(arena_.SlotsFor(max), arena_.slots());
  if (max.count != 0 && max < min)
    return Fail(
        Errc::kInvalidArgument,
        fmt::format("memory: it can't have a minimum of {:g} MiB and a maximum of {:g} MiB; give the smaller one first",
                    PerMebibyte(min), PerMebibyte(max)));
  if (least > arena_.slots())
    return Fail(Errc::kInvalidArgument,
                fmt::format("memory: it can't be guaranteed {:g} MiB: the device has {} slots of {:.0f} MiB",
                            PerMebibyte(min), arena_.slots(), PerMebibyte(arena_.slot_bytes())));
  most = std::max({most, least, std::min(arena_.slots(), 1U)});
  const Ballooned* member = Find(id);
  const std::uint64_t others = guaranteed() - (member == nullptr ? 0 : member->min);
  const auto limit = static_cast<std::uint64_t>(settings_.sold_max * arena_.slots());
  const bool more = member == nullptr || least > member->min;
  if (more && least > 0 && others + least > limit)
    return Fail(
        Errc::kResourceExhausted,
        fmt::format("memory: it can't be guaranteed {} slots of {:.0f} MiB: {} are guaranteed to others, of {} that "
                    "may be; at most {} can be. Ask for less, or raise sold_max",
                    least, PerMebibyte(arena_.slot_bytes()), others, limit, limit > others ? limit - others : 0));
  return SlotRange{least, most};
}

void Balloon::Enter(VgpuId id, SlotRange bounds) {
  const auto at = std::ranges::lower_bound(members_, id, {}, &Ballooned::id);
  members_.insert(at, Ballooned{.id = id, .min = bounds.first, .max = bounds.count});
}

Status Balloon::Check(VgpuId id, Bytes min, Bytes max) const {
  WEIR_TRY_STATUS(Bounds(id, min, max));
  return Ok();
}

Status Balloon::Add(VgpuId id, Bytes min, Bytes max) {
  WEIR_TRY(const SlotRange bounds, Bounds(id, min, max));
  WEIR_TRY_STATUS(arena_.Add(id, bounds.first, bounds.count));
  Enter(id, bounds);
  return Ok();
}

Status Balloon::Remove(VgpuId id) {
  WEIR_TRY_STATUS(arena_.Remove(id));
  std::erase_if(members_, [id](const Ballooned& member) { return member.id == id; });
  return Ok();
}

Result<BalloonNote> Balloon::SetBounds(VgpuId id, Bytes min, Bytes max) {
  Ballooned* member = Find(id);
  if (member == nullptr)
    return Fail(Errc::kNotFound, fmt::format("vGPU {} has no memory on this device to set", id.value));
  WEIR_TRY(const SlotRange bounds, Bounds(id, min, max));
  member->min = bounds.first;
  member->max = bounds.count;
  const std::uint32_t held = arena_.CountOf(id);
  const std::uint32_t target = std::clamp(held, member->min, member->max);
  SlotChange change;
  if (target > held) change = *arena_.Expand(id, target - held);
  if (target < held) change = *arena_.Reduce(id, held - target);
  BalloonNote note = NoteOf(BalloonNote::Kind::kBounds, id);
  note.slots = target > held ? target - held : held - target;
  note.change = change;
  return note;
}

BalloonNote Balloon::NoteOf(BalloonNote::Kind kind, VgpuId id) const {
  const Ballooned* member = Find(id);
  return {.kind = kind,
          .vgpu = id,
          .held = arena_.CountOf(id),
          .used = member == nullptr ? 0 : member->used,
          .pressure = pressure_,
          .overhead = overhead_,
          .steal = steal_,
          .copying = copying_};
}

// -- Asks ------------------------------------------------------------------------------------------------------------

SlotGrant Balloon::Refuse(BalloonNote::Kind kind, VgpuId id, std::uint32_t wanted, Instant again) const {
  BalloonNote note = NoteOf(kind, id);
  note.wanted = wanted;
  return {.note = note, .again = again};
}

/// Only growth after the vGPU gave up slots counts as a turn, and not repeated growth.
Instant Balloon::BrakedUntil(const Ballooned& member) const {
  if (!member.shrunk_last || member.turns < settings_.thrash_turns) return Instant::min();
  return member.turned[(member.turns - settings_.thrash_turns) % kTurnsMax] + settings_.thrash_window;
}

SlotGrant Balloon::Give(Instant now, Ballooned& member, std::uint32_t wanted, std::uint32_t target) {
  const std::uint32_t held = arena_.CountOf(member.id);
  const SlotChange change = *arena_.Expand(member.id, target - held);
  if (std::exchange(member.shrunk_last, false)) member.turned[member.turns++ % kTurnsMax] = now;
  BalloonNote note = NoteOf(target < wanted ? BalloonNote::Kind::kPartly : BalloonNote::Kind::kGranted, member.id);
  note.slots = target - held;
  note.wanted = wanted;
  note.change = change;
  return {.note = note, .again = now};
}

Result<SlotGrant> Balloon::Ask(Instant now, VgpuId id, Bytes need, Bytes must) {
  Ballooned* member = Find(id);
  if (member == nullptr)
    return Fail(Errc::kNotFound, fmt::format("vGPU {} has no memory on this device to ask more of", id.value));
  if (need.count == 0)
    return Fail(Errc::kInvalidArgument, fmt::format("vGPU {} requests no memory; the least is one byte", id.value));
  const std::uint32_t wanted = arena_.SlotsFor(std::max(need, must));
  const std::uint32_t held = arena_.CountOf(id);
  const std::uint32_t target = std::min(wanted, member->max);
  if (wanted <= held) return Refuse(BalloonNote::Kind::kHas, id, wanted, now);
  if (target <= held) return Refuse(BalloonNote::Kind::kAtMaximum, id, wanted, Instant::max());
  const std::uint32_t least = std::min(arena_.SlotsFor(must), member->max);
  const auto or_least = [&](BalloonNote::Kind kind, Instant again) {
    return least > held ? Give(now, *member, wanted, least) : Refuse(kind, id, wanted, again);
  };
  if (pressure_ == MemoryPressure::kHigh)
    return or_least(BalloonNote::Kind::kOverhead, std::max(now, looked_at_ + settings_.look));
  if (member->shrunk && pressure_ != MemoryPressure::kLow && now < member->shrunk_at + settings_.regrow)
    return or_least(BalloonNote::Kind::kJustShrunk, member->shrunk_at + settings_.regrow);
  if (const Instant until = BrakedUntil(*member); now < until) return or_least(BalloonNote::Kind::kThrash, until);
  return Give(now, *member, wanted, target);
}

// -- Looks -----------------------------------------------------------------------------------------------------------

Instant Balloon::See(Instant now, std::span<const MemoryView> views, std::vector<BalloonNote>& notes) {
  if (!started_) {
    started_ = true;
    looked_at_ = now;
    Measure(Duration{}, views);
    return now + settings_.look;
  }
  if (now < looked_at_ + settings_.look) return looked_at_ + settings_.look;
  Measure(now - looked_at_, views);
  looked_at_ = now;
  const MemoryPressure before = pressure_;
  pressure_ = overhead_ > settings_.high_line  ? MemoryPressure::kHigh
              : overhead_ > settings_.low_line ? MemoryPressure::kMiddle
                                               : MemoryPressure::kLow;
  if (pressure_ != before) notes.push_back(NoteOf(BalloonNote::Kind::kPressure, {}));
  if (pressure_ != MemoryPressure::kLow) ShrinkOne(now, notes);
  return now + settings_.look;
}

/// Applies equations 1 to 3 to the growth of the totals. In eq. 2 the times of one thread add up to the span. So the
/// sum over the threads is their number times the ratio of the summed times. A zero `span` only records the totals.
void Balloon::Measure(Duration span, std::span<const MemoryView> views) {
  Duration copying{};
  double steal = 0, waiting_part = 0, copying_part = 0;  // the parts are fractions of W_max and R_max, after limiting
  const double copy_s_max = SecondsOf(span) * cpus_ * copy_max_ / 100;
  // With several vGPUs the part of each is limited; a vGPU alone takes nothing from others.
  const bool limited = views.size() > 1 && settings_.high_line > 0;
  const double most = settings_.high_line * (1 - 1e-9);  // stays below the line despite rounding
  for (Ballooned& member : members_) member.present = false;
  for (const MemoryView& view : views) {
    Ballooned* member = Find(view.id);
    if (member == nullptr || member->present) continue;
    const Duration copied = GrownBy(member->copying, view.copying);
    const Duration stolen = GrownBy(member->steal, view.steal);
    const Duration others = GrownBy(member->elsewhere, view.elsewhere);
    member->used = arena_.SlotsFor(view.in_use);
    member->must = arena_.SlotsFor(view.must);
    member->present = true;
    if (!std::exchange(member->seen, true)) continue;
    // An executor's report is limited: no more copying than time has passed, and no more waiting threads than there are
    // CPUs. A long copy may be reported at its end, so unreported time is accumulated.
    member->copy_time = std::min(member->copy_time + span, kCopyTimeMax);
    const Duration believed = std::min(copied, member->copy_time);
    member->copy_time -= believed;
    copying += believed;
    const double waited = stolen > Duration{} ? std::min(view.threads, cpus_) * SecondsOf(stolen) /
                                                    (SecondsOf(stolen) + SecondsOf(others))
                                              : 0;
    steal += waited;
    const double waits = waited * 100 / steal_max_;
    const double copies = copy_s_max > 0 ? SecondsOf(believed) / copy_s_max : 0;
    const double scale = limited && waits + copies > most ? most / (waits + copies) : 1;
    waiting_part += waits * scale;
    copying_part += copies * scale;
  }
  if (span <= Duration{}) return;
  copying_ = SecondsOf(copying) / (SecondsOf(span) * cpus_) * 100;
  steal_ = steal * 100;
  waiting_ = std::min(waiting_part, 1.0);
  overhead_ = waiting_ + std::min(copying_part, 1.0);
}

double Balloon::TurnCopies() const {
  const double calm = settings_.turn_copies, busy = std::max(calm, settings_.busy_copies);
  return calm + (busy - calm) * waiting_;
}

bool Balloon::Rests(const Ballooned& member, Instant now) const {
  return member.shrunk && now < member.shrunk_at + settings_.rest;
}

/// Slots that the vGPU could give up: those above its minimum and above the need of one command, and between the two
/// lines only unused ones. A vGPU without a view counts as using all of its slots.
std::uint32_t Balloon::Spare(const Ballooned& member) const {
  const std::uint32_t held = arena_.CountOf(member.id);
  std::uint32_t kept = std::max(member.min, member.present ? member.must : 0);
  if (pressure_ == MemoryPressure::kMiddle) kept = std::max(kept, member.present ? member.used : held);
  return held > kept ? held - kept : 0;
}

/// Takes slots from one vGPU. The order is: one that shares slots with others (otherwise no copy is saved); above the
/// high line, one that has not just shrunk; the one with the most slots to spare; the one that shrank longest ago, for
/// fairness. gBalloon's "holds much and uses least" (3.2) is taken as the most slots that are held and unused.
void Balloon::ShrinkOne(Instant now, std::vector<BalloonNote>& notes) {
  using Rank = std::tuple<bool, bool, std::uint32_t, std::int64_t>;
  Ballooned* chosen = nullptr;
  Rank best{};
  for (Ballooned& member : members_) {
    const std::uint32_t spare = Spare(member);
    const bool rests = Rests(member, now);
    if (spare == 0 || (rests && pressure_ == MemoryPressure::kMiddle)) continue;
    const std::int64_t long_ago = member.shrunk ? -NsOf(member.shrunk_at) : std::numeric_limits<std::int64_t>::max();
    Rank rank{true, !rests, spare, long_ago};
    if (chosen != nullptr && rank <= best) continue;  // not even if it shares slots
    std::get<0>(rank) = arena_.SharesAny(member.id);
    if (chosen != nullptr && rank <= best) continue;
    chosen = &member;
    best = rank;
  }
  if (chosen == nullptr) return;
  const std::uint32_t slots = std::min(std::get<2>(best), settings_.shrink_slots);
  const SlotChange change = *arena_.Reduce(chosen->id, slots);
  chosen->shrunk = chosen->shrunk_last = true;
  chosen->shrunk_at = now;
  BalloonNote note =
      NoteOf(pressure_ == MemoryPressure::kHigh ? BalloonNote::Kind::kShrunkOverhead : BalloonNote::Kind::kShrunkIdle,
             chosen->id);
  note.slots = slots;
  note.change = change;
  notes.push_back(note);
}

}  // namespace weir::core
