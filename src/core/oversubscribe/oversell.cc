// SPDX-License-Identifier: Apache-2.0
#include "core/oversubscribe/oversell.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>
#include <utility>

namespace weir::core {
namespace {

/// A program is observed at every stage for this long after its last activity.
constexpr Duration kWatchedFor = seconds(1);

/// A vGPU that waits after this many consecutive stages without a limit has returned from idleness.
constexpr int kCameBack = 5;

/// Minimum time between two warnings of a device. A drain request is cancelled once fewer than two vGPUs have been
/// overloaded for this long.
constexpr Duration kWarnEvery = seconds(10);

/// A warning names only vGPUs that have used the device within this time. Also the longest time for which a move waits
/// for the program's commands (remote/move.cc), in which the program uses nothing and has not left yet.
constexpr Duration kMayBeAway = seconds(30);

constexpr double kAlmost = 1e-4;  // of the device: smaller differences of caps are ignored

}  // namespace

Oversell::Oversell(OversellMode mode, const PolicyParams& params)
    : mode_(mode),
      params_(params),
      settings_(ParamsFrom<OversellParams>(params)),
      report_(std::max(settings_.report, settings_.stage)),
      prices_(PricesOf(params_)),
      part_(settings_.load_span / static_cast<std::int64_t>(Watched::kParts)) {}

// -- Members ---------------------------------------------------------------------------------------------------------

Oversell::Watched* Oversell::Find(VgpuId id) {
  const auto found = std::ranges::lower_bound(members_, id, {}, &Watched::id);
  return found != members_.end() && found->id == id ? &*found : nullptr;
}
const Oversell::Watched* Oversell::Find(VgpuId id) const {
  const auto found = std::ranges::lower_bound(members_, id, {}, &Watched::id);
  return found != members_.end() && found->id == id ? &*found : nullptr;
}

double Oversell::CeilingsOf(Sale sale) const {
  double sum = 0;
  for (const Watched& member : members_) sum += member.sale == sale ? member.ceiling : 0;
  return sum;
}

double Oversell::sold() const { return CeilingsOf(Sale::kGuaranteed) + CeilingsOf(Sale::kOversold); }

Status Oversell::Add(VgpuId id, Share ceiling, Sale sale, bool restored) {
  const double asked = ceiling.Fraction();
  if (!restored && sale != Sale::kBestEffort) {
    const SalesOffer offer = OfferNow();
    sale = asked <= offer.guaranteed + kAlmost ? Sale::kGuaranteed : Sale::kOversold;
    if (asked > offer.most() + kAlmost)
      return Fail(Errc::kResourceExhausted, fmt::format("a cap of {:.0f} % can't be sold now; at most {:.0f} % can: {}",
                                                        asked * 100, std::floor(offer.most() * 100), Words(offer)));
  } else if (mode_ != OversellMode::kOff && sale == Sale::kGuaranteed &&
             CeilingsOf(Sale::kGuaranteed) + asked > 1 + kAlmost) {
    sale = Sale::kOversold;
  }
  const auto at = std::ranges::lower_bound(members_, id, {}, &Watched::id);
  members_.insert(at, Watched{.id = id, .sale = sale, .ceiling = asked, .cap = 0});
  calm_ = 0;
  Divide();
  return Ok();
}

Status Oversell::SetCeiling(VgpuId id, Share ceiling) {
  Watched* member = Find(id);
  if (member == nullptr || std::abs(member->ceiling - ceiling.Fraction()) < kAlmost) return Ok();
  const double before = std::exchange(member->ceiling, 0.0);
  const SalesOffer offer = OfferNow();
  const double asked = ceiling.Fraction();
  const bool more = asked > before + kAlmost;
  const bool guaranteed = member->sale == Sale::kGuaranteed && asked <= offer.guaranteed + kAlmost;
  if (more && !guaranteed && member->sale != Sale::kBestEffort && asked > offer.most() + kAlmost) {
    member->ceiling = before;
    return Fail(Errc::kResourceExhausted, fmt::format("a cap of {:.0f} % can't be sold now; at most {:.0f} % can: {}",
                                                      asked * 100, std::floor(offer.most() * 100), Words(offer)));
  }
  member->ceiling = asked;
  if (member->sale == Sale::kGuaranteed && !guaranteed && more) member->sale = Sale::kOversold;
  Divide();
  return Ok();
}

void Oversell::Remove(VgpuId id) {
  std::erase_if(members_, [id](const Watched& member) { return member.id == id; });
  if (named_ == id) named_ = {};
  empty_ = members_.empty();
  Divide();
}

Share Oversell::CapOf(VgpuId id) const {
  const Watched* member = Find(id);
  return member == nullptr ? Share::Whole() : Share::FromFraction(std::clamp(member->cap, 0.0, 1.0));
}
Share Oversell::CeilingOf(VgpuId id) const {
  const Watched* member = mode_ == OversellMode::kAdaptive ? Find(id) : nullptr;
  return member == nullptr ? Share{} : Share::FromFraction(std::clamp(member->ceiling, 0.0, 1.0));
}
Sale Oversell::SaleOf(VgpuId id) const {
  const Watched* member = Find(id);
  return member == nullptr ? Sale::kGuaranteed : member->sale;
}

// -- Caps ------------------------------------------------------------------------------------------------------------

template <typename Change>
void Oversell::Rearrange(OversellNote::Kind kind, std::vector<OversellNote>* notes, Change change) {
  holders_.clear();
  for (const Watched& member : members_)
    holders_.push_back({.id = member.id,
                        .sale = member.sale,
                        .ceiling = member.ceiling,
                        .cap = member.cap,
                        .use = member.use,
                        .need = member.need,
                        .limited = member.limited && member.cap < member.ceiling - kAlmost,
                        .lends = member.Lends(),
                        .needy = member.needy,
                        .claim = member.claim,
                        .lateness = member.lateness});
  done_.clear();
  change(holders_);
  for (std::size_t i = 0; i < members_.size(); ++i) members_[i].cap = holders_[i].cap;
  if (notes == nullptr) return;
  for (const Transfer& transfer : done_) {
    if (transfer.amount < 0.005) continue;  // smaller transfers happen at every stage
    OversellNote note = NoteOf(kind, *Find(transfer.to));
    note.from = transfer.from;
    note.amount = transfer.amount;
    notes->push_back(note);
  }
}

/// Called after a vGPU was added, removed or changed: each vGPU gets its ceiling if the device suffices, otherwise what
/// the mode gives it.
void Oversell::Divide() {
  if (mode_ != OversellMode::kAdaptive) {
    const double sum = CeilingsOf(Sale::kGuaranteed) + CeilingsOf(Sale::kOversold);
    const double part = mode_ == OversellMode::kStatic && sum > 1 ? 1 / sum : 1.0;
    // Best-effort vGPUs together get what is not sold.
    const double wanted = CeilingsOf(Sale::kBestEffort);
    const double left = wanted > 0 ? std::clamp((1 - sum) / wanted, 0.0, 1.0) : 0;
    for (Watched& member : members_) {
      const bool leftovers = member.sale == Sale::kBestEffort && mode_ != OversellMode::kOff;
      member.cap = member.ceiling * (leftovers ? left : part);
    }
    return;
  }
  Rearrange(OversellNote::Kind::kRegained, nullptr, [this](std::vector<CapHolder>& holders) {
    Fit(holders);
    for (std::size_t i = 0; i < holders.size(); ++i)
      if (holders[i].cap < holders[i].ceiling && members_[i].marks == 0) MakePlace(holders, i, settings_.margin, done_);
  });
}

SalesOffer Oversell::OfferNow() const {
  using Limit = SalesOffer::Limit;
  const double guaranteed = CeilingsOf(Sale::kGuaranteed);
  SalesOffer offer{.guaranteed = std::max(1 - guaranteed, 0.0),
                   .sold = sold(),
                   .calm = calm_,
                   .calm_reports = settings_.calm_reports,
                   .load = peak_,
                   .load_span = part_ > Duration{0} ? settings_.load_span : Duration{0},
                   .low_line = settings_.low_line,
                   .use_of_sold = expected_use_};
  switch (mode_) {
    case OversellMode::kOff: offer.guaranteed = 1; break;
    case OversellMode::kStrict: offer.guaranteed = std::max(1 - sold(), 0.0); break;
    case OversellMode::kStatic:
      offer.oversold = std::clamp(settings_.ratio - sold(), 0.0, 1.0);
      offer.guaranteed = std::max(1 - sold(), 0.0);
      break;
    case OversellMode::kAdaptive:
      offer.limit = calm_ < settings_.calm_reports ? Limit::kCalm
                    : peak_ >= settings_.low_line  ? Limit::kLoad
                                                   : Limit::kUnused;
      if (offer.limit == Limit::kUnused)
        offer.oversold = std::clamp((settings_.fill_line - peak_) / std::clamp(expected_use_, 0.1, 1.0), 0.0, 1.0);
      break;
  }
  return offer;
}

// -- Stages ----------------------------------------------------------------------------------------------------------

Instant Oversell::See(Instant now, std::span<const VgpuView> views, std::vector<OversellNote>& notes) {
  if (mode_ == OversellMode::kOff) return kNever;
  if (!started_) {
    started_ = true;
    stage_began_ = report_began_ = now;
  }
  if (empty_) {  // until this call; a new vGPU does not pay for the time before it was added
    account_.BookDevice(prices_, now - report_began_);
    stage_began_ = report_began_ = now;
    empty_ = members_.empty();
    if (empty_) return kNever;
  }
  bool attached = false, awake = false;
  for (const VgpuView& view : views) {
    Watched* member = Find(view.id);
    if (member == nullptr) continue;
    See(view, *member);
    attached |= view.attached;
    awake |= Competes(view, now, kWatchedFor);
  }
  if (now - stage_began_ >= settings_.stage) Stage(now, views, notes);
  if (!attached) Relieve(notes);  // no further reports would do so
  if (awake) return stage_began_ + settings_.stage;
  return attached ? report_began_ + report_ : kNever;
}

void Oversell::Stage(Instant now, std::span<const VgpuView> views, std::vector<OversellNote>& notes) {
  const Duration passed = now - stage_began_;
  stage_began_ = now;
  for (const VgpuView& view : views) {
    Watched* member = Find(view.id);
    if (member == nullptr) continue;
    // If all vGPUs are at their caps, the device may be full slightly before the caps are used up, and programs wait in
    // the driver's queue instead of at the gate. A vGPU that waits often or is late, and has used nearly all of its
    // cap, needs a higher cap.
    const bool waits = member->stage_waits * 3 > member->stage_looks;
    const bool late =
        view.promised > Duration{0} && view.rate * SecondsOf(view.promised) < 1 && Competes(view, now, settings_.stage);
    // A vGPU that has just returned from idleness has used little of the last second, so only this stage counts. Its
    // cap limits it if it waited, since vGPUs with more cap left go first. Its cap also limits it if it used more than
    // the cap: savings and lent time end soon.
    const double of_stage = member->marks > 0 ? SecondsOf(view.used - member->LastMarked()) / SecondsOf(passed) : 0;
    const bool kept_back = (waits || of_stage > member->cap) && member->stages_unlimited >= kCameBack;
    member->limited |=
        kept_back || ((waits || late) && std::max(member->use, of_stage) >= (1 - settings_.margin) * member->cap);
    member->cap_seconds += member->cap * SecondsOf(passed);
    ++member->stages;
    member->limited_stages += member->limited ? 1 : 0;
    member->denied_stages += member->limited && member->cap < (1 - settings_.rate_tolerance) * member->ceiling ? 1 : 0;
    member->stages_unlimited = member->limited ? 0 : member->stages_unlimited + 1;
    member->limited_then = member->limited_then << 1 | (member->limited ? 1U : 0U);
    member->busy_stages += Competes(view, now, settings_.stage) ? 1 : 0;
    Measure(now, view, *member);
  }
  if (mode_ == OversellMode::kAdaptive && settings_.regain)
    Rearrange(OversellNote::Kind::kRegained, &notes,
              [this](std::vector<CapHolder>& holders) { Regain(holders, settings_.margin, done_); });
  const Duration span = now - report_began_;
  if (span >= report_) {
    Report(now, span, views, notes);
    if (mode_ == OversellMode::kAdaptive) Mitigate(now, notes);
    report_began_ = now;
  }
  for (Watched& member : members_) {
    member.limited = false;
    member.stage_looks = member.stage_waits = 0;
  }
}

// -- Overload --------------------------------------------------------------------------------------------------------

OversellNote Oversell::NoteOf(OversellNote::Kind kind, const Watched& member) const {
  return {.kind = kind,
          .vgpu = member.id,
          .cap = member.cap,
          .use = member.cap > 0 ? member.use / member.cap : 1,
          .rate = member.rate,
          .promised = member.promised};
}

void Oversell::Mitigate(Instant now, std::vector<OversellNote>& notes) {
  std::vector<std::size_t> signals;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].overloaded) signals.push_back(i);
  std::ranges::stable_sort(signals, std::greater{}, [this](std::size_t i) { return members_[i].lateness; });
  calm_ = signals.empty() ? calm_ + 1 : 0;
  const Weights weights{.use = settings_.weight_use, .lateness = settings_.weight_late};
  for (const std::size_t to : signals)
    Rearrange(OversellNote::Kind::kStolen, &notes, [&](std::vector<CapHolder>& holders) {
      Transfer transfer;
      if (Steal(holders, to, settings_.steal, weights, transfer) > 0) done_.push_back(transfer);
    });
  if (signals.size() > 1) several_at_ = now;
  if (signals.size() > 1 && (warned_ == Instant{} || now - warned_ >= kWarnEvery)) Warn(now, notes);
  if (now - several_at_ >= kWarnEvery) Relieve(notes);
  const bool offering = OfferNow().oversold > 0;
  if (offering != offering_)
    notes.push_back({.kind = OversellNote::Kind::kSellable, .amount = OfferNow().most(), .use = peak_});
  offering_ = offering;
}

/// Several vGPUs are overloaded at once, so one should move away: the one that was sold least firmly. Among these, the
/// one that has the drain request keeps it, because its programs may be moving; else the one with the highest use helps
/// most. A second without any use means little: a busy host pauses programs, and so does a move.
void Oversell::Warn(Instant now, std::vector<OversellNote>& notes) {
  const auto rank = [this](const Watched& member) { return std::tuple(member.sale, member.id == named_, member.use); };
  const Watched* victim = nullptr;
  for (const Watched& member : members_) {
    if (member.used_at == Instant{} || now - member.used_at >= kMayBeAway) continue;
    if (victim == nullptr || rank(member) > rank(*victim)) victim = &member;
  }
  if (victim == nullptr) return;
  if (named_ == victim->id && victim->use <= 0) return;  // it has been warned, and may be moving or gone
  warned_ = now;
  if (named_ != victim->id) Relieve(notes);
  named_ = victim->id;
  notes.push_back(NoteOf(OversellNote::Kind::kWarning, *victim));
}

/// Cancels the drain request: no vGPU has to move any more, or another one has to.
void Oversell::Relieve(std::vector<OversellNote>& notes) {
  const Watched* member = named_ ? Find(std::exchange(named_, VgpuId{})) : nullptr;
  if (member != nullptr) notes.push_back(NoteOf(OversellNote::Kind::kRelieved, *member));
}

}  // namespace weir::core
