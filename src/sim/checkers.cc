// SPDX-License-Identifier: Apache-2.0
#include "sim/checkers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/memory/balloon.h"
#include "core/oversubscribe/oversell.h"
#include "core/schedule/cap_bucket.h"
#include "core/schedule/proportional_share.h"
#include "core/schedule/reserve.h"
#include "core/schedule/round_robin.h"
#include "core/schedule/sla_aware.h"

namespace weir::sim {

bool HasMemory(const Tenant& tenant) {
  return tenant.memory.count > 0 ||
         std::ranges::any_of(tenant.scenes, [](const Scene& s) { return s.memory.has_value(); });
}

bool Plays(const Run& run, const Tenant& tenant) {
  return run.only.empty() || std::ranges::find(run.only, tenant.name) != run.only.end();
}

engine::VgpuSettings SettingsAt(const Run& run, const Tenant& tenant, Duration at) {
  const auto own = run.settings.find(tenant.name);
  engine::VgpuSettings settings = own != run.settings.end() ? own->second : tenant.settings;
  Duration since{-1};
  for (const ScenarioChange& change : run.changes) {
    if (change.tenant != tenant.name || change.at > at || change.at < since) continue;
    settings = change.settings;
    since = change.at;
  }
  return settings;
}

namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
/// A tenant that waited, queued or ran for this part of every second always wanted the device.
constexpr double kAlways = 0.98;
/// Tolerance of shares and rates, in addition to frames that cannot be cut short.
constexpr double kWithin = 0.02;
/// A program competes without a pause if its CPU time per frame is at most this part of its GPU time.
constexpr double kThinks = 0.03;
/// A program that always wants the device gets at least this part of its weight's share of it. Policies may leave the
/// rest idle while they wait for the next frames of other programs.
constexpr double kFloor = 0.5;
/// A process may make this many frames too many: after a late frame the next intervals are shorter, until a stall of up
/// to four intervals is made good (core/schedule/frame_pacer.h).
constexpr double kFramesMadeGood = 6;
/// The device easily suffices if all demands together are below kFits of it, and the longest frames together are below
/// kFitsInterval of an interval.
constexpr double kFits = 0.6;
constexpr double kFitsInterval = 0.9;

Duration LongestOf(const Scene& scene, Duration mean) {
  const double spike = scene.spike_every > 0 ? 1 + scene.spike : 1;
  return FromSeconds(SecondsOf(mean) * (1 + scene.jitter) * spike);
}
Duration MeanFrame(const Tenant& tenant) {
  Duration mean{};
  for (const Scene& scene : tenant.scenes) mean = std::max(mean, scene.gpu);
  return mean;
}

/// The highest ratio at which the run sells ceilings statically: a cap may be as low as a ceiling divided by it. 1 if
/// there is none.
double MostStaticRatio(const Run& run) {
  double most = 1;
  const auto with = [&](core::OversellMode mode, const core::PolicyParams& given) {
    if (mode != core::OversellMode::kStatic) return;
    if (const auto params = core::CheckOversellParams(given))
      most = std::max(most, core::ParamsFrom<core::OversellParams>(*params).ratio);
  };
  with(run.oversell, run.oversell_params);
  for (const ScenarioChange& change : run.changes)
    if (change.oversell) with(*change.oversell, change.oversell_params);
  return most;
}

struct Span {
  Duration from{}, to{};
};

/// The times of faults on a device, of changes that concern it, and of its tenants' starts and ends.
std::vector<Span> Disturbances(const Scenario& scenario, const Run& run, std::uint32_t device) {
  std::vector<Span> all{{Duration{0}, Duration{0}}};
  const auto is_here = [&](const std::string& name) {
    return std::ranges::any_of(scenario.tenants, [&](const Tenant& t) { return t.name == name && t.device == device; });
  };
  for (const ScenarioChange& change : run.changes)
    if (change.tenant.empty() || is_here(change.tenant)) all.push_back({change.at, change.at});
  for (const Fault& fault : scenario.faults)
    if (fault.kind == FaultKind::kProcessKill ? is_here(fault.tenant) : fault.device == device)
      all.push_back({fault.at, fault.until});
  for (const Tenant& tenant : scenario.tenants) {
    if (tenant.device != device || !Plays(run, tenant)) continue;
    all.push_back({tenant.start, tenant.start});
    if (tenant.end > Duration{0}) all.push_back({tenant.end, tenant.end});
  }
  std::ranges::stable_sort(all, {}, &Span::from);
  return all;
}

/// A tenant with its record.
struct Seen {
  const Tenant* tenant = nullptr;
  const TenantRecord* record = nullptr;
  engine::VgpuSettings settings{};  // in force in the stretch that is checked
};

class Checker {
 public:
  Checker(const Scenario& scenario, const Run& run, const RunRecord& record)
      : scenario_(scenario), run_(run), record_(record) {}

  std::vector<std::string> All() {
    for (const TenantRecord& record : record_.tenants)
      for (const Tenant& tenant : scenario_.tenants)
        if (tenant.name == record.name) {
          CheckCaps({&tenant, &record});
          CheckBooks({&tenant, &record});
        }
    for (std::uint32_t device = 0; device < scenario_.devices.size(); ++device)
      for (const Stretch& stretch : CalmStretches(scenario_, run_, device)) {
        const std::vector<Seen> here = Here(device, stretch);
        CheckProgress(here, stretch);
        // Where caps move, or customers come and go, shares do not follow from weights alone (see CheckSelling).
        if (stretch.to_s - stretch.from_s < kStretchMin || Sells(run_) || AnyCustomers(device)) continue;
        if (stretch.policy == "proportional-share" || stretch.policy == "round-robin") CheckShares(here, stretch);
        if (stretch.policy == "sla-aware") CheckRates(here, stretch, device);
        if (stretch.policy == "reserve") CheckReserve(here, stretch, device);
      }
    std::ranges::move(CheckIdle(scenario_, run_, record_), std::back_inserter(objections_));
    std::ranges::move(CheckSelling(scenario_, run_, record_), std::back_inserter(objections_));
    std::ranges::move(CheckMemory(scenario_, run_, record_), std::back_inserter(objections_));
    return std::move(objections_);
  }

 private:
  template <typename... Args>
  void Object(fmt::format_string<Args...> format, Args&&... args) {
    objections_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  template <typename T>
  static double Sum(const std::vector<T>& by_second, std::int64_t from_s, std::int64_t to_s) {
    double sum = 0;
    for (std::int64_t s = from_s; s < to_s && s < static_cast<std::int64_t>(by_second.size()); ++s)
      sum += static_cast<double>(by_second[static_cast<std::size_t>(s)]);
    return sum;
  }
  static double Use(const Seen& seen, const Stretch& stretch) {
    return Sum(seen.record->gpu_ns_by_s, stretch.from_s, stretch.to_s) * 1e-9;
  }
  static double Extent(const Seen& seen) { return SecondsOf(ExtentOf(*seen.tenant)); }

  /// The tenants that are present during the whole stretch.
  std::vector<Seen> Here(std::uint32_t device, const Stretch& stretch) const {
    std::vector<Seen> here;
    for (const TenantRecord& record : record_.tenants)
      for (const Tenant& tenant : scenario_.tenants)
        if (tenant.name == record.name && tenant.device == device && tenant.start <= seconds(stretch.from_s) &&
            (tenant.end == Duration{0} || tenant.end >= seconds(stretch.to_s)) && IsFirm(record, stretch))
          here.push_back({&tenant, &record, SettingsAt(run_, tenant, seconds(stretch.from_s))});
    return here;
  }

  /// Whether the tenant is promised anything in the stretch. Where devices are sold, only vGPUs that were guaranteed
  /// before it are: the others get what is left of the device, which may be nothing.
  bool IsFirm(const TenantRecord& record, const Stretch& stretch) const {
    return !Sells(run_) || (!record.terms.empty() && record.terms.back().sale == core::Sale::kGuaranteed &&
                            record.terms.back().at_ns <= (stretch.from_s - kSettled / seconds(1)) * kSecondNs);
  }

  bool AnyCustomers(std::uint32_t device) const {
    return std::ranges::any_of(scenario_.tenants, [&](const Tenant& t) { return t.device == device && t.customer; });
  }

  bool DaemonIsDead(std::uint32_t device, Duration from, Duration to) const {
    return std::ranges::any_of(scenario_.faults, [&](const Fault& fault) {
      return fault.kind == FaultKind::kDaemonCrash && fault.device == device && fault.at <= to &&
             fault.until + seconds(1) >= from;
    });
  }
  /// How often one of the tenant's processes was killed in this time. Each time, a frame in flight is charged to no
  /// vGPU, or its reservation is given back.
  double Killed(const Seen& seen, Duration from, Duration to) const {
    double kills = 0;
    for (const Fault& fault : scenario_.faults)
      if (fault.kind == FaultKind::kProcessKill && fault.tenant == seen.tenant->name && fault.at <= to &&
          fault.until >= from)
        kills += 1;
    return kills;
  }

  /// The highest cap in force in this time, or up to 100 ms before it.
  Share CapIn(const Seen& seen, Duration from, Duration to) const {
    Share cap = SettingsAt(run_, *seen.tenant, from).cap;
    for (const ScenarioChange& change : run_.changes)
      if (change.tenant == seen.tenant->name && change.at >= from - milliseconds(100) && change.at <= to)
        cap = std::max({cap, change.settings.cap, SettingsAt(run_, *seen.tenant, change.at - nanoseconds(1)).cap});
    return cap;
  }
  /// The same of the ceilings that were sold. A change to a higher cap may have been refused.
  static Share CeilingIn(const TenantRecord& record, Duration from, Duration to) {
    double ceiling = 0;
    for (std::size_t i = 0; i < record.terms.size(); ++i) {
      const bool over = i + 1 < record.terms.size() && Duration{record.terms[i + 1].at_ns} < from - milliseconds(100);
      if (!over && Duration{record.terms[i].at_ns} <= to) ceiling = std::max(ceiling, record.terms[i].ceiling);
    }
    return record.terms.empty() ? Share::Whole() : Share::FromFraction(ceiling);
  }

  void CheckCaps(const Seen& seen) {
    for (std::int64_t s = 0; (s + 1) * kSecondNs <= record_.span_ns; ++s) {
      const Duration from = seconds(s);
      const Duration to = seconds(s + 1);
      if (DaemonIsDead(seen.tenant->device, from, to)) continue;
      const Share cap = Sells(run_) ? CeilingIn(*seen.record, from, to) : CapIn(seen, from, to);
      if (cap >= Share::Whole()) continue;
      const double used = Sum(seen.record->gpu_ns_by_s, s, s + 1) * 1e-9;
      // After a change of policy, a policy that keeps caps itself begins with another burst.
      const auto changed = std::ranges::count_if(run_.changes, [&](const ScenarioChange& change) {
        return change.of_policy() && change.at >= from - core::kCapBurst && change.at <= to;
      });
      const double slack = SecondsOf(cap.Of(core::kCapBurst)) * static_cast<double>(1 + changed) +
                           Extent(seen) * (2 + Killed(seen, from - seconds(1), to)) + kWithin * cap.Fraction();
      if (used > cap.Fraction() + slack)
        Object("caps: {} … {} s: '{}' used {:.3f} of the device; its cap is {:.3f}, the slack {:.3f}", s, s + 1,
               seen.tenant->name, used, cap.Fraction(), slack);
    }
  }

  void CheckBooks(const Seen& seen) {
    double kills = Killed(seen, Duration{0}, scenario_.span) * 2 + (seen.tenant->end > Duration{0} ? 1 : 0);
    for (const Fault& fault : scenario_.faults)  // work that was not settled at a crash is charged to no vGPU
      kills += fault.kind == FaultKind::kDaemonCrash && fault.device == seen.tenant->device ? 1 : 0;
    const double bound = Extent(seen) * (2 + kills);
    const double off = static_cast<double>(seen.record->charged_ns - seen.record->worked_ns) * 1e-9;
    if (std::abs(off) > bound)
      Object("books: agents of '{}' took {:.4f} s from its allowance, the device did {:.4f} s for them; bound {:.4f} s",
             seen.tenant->name, static_cast<double>(seen.record->charged_ns) * 1e-9,
             static_cast<double>(seen.record->worked_ns) * 1e-9, bound);
    const double unbooked = static_cast<double>(seen.record->booked_ns - seen.record->worked_since_ns) * 1e-9;
    if (std::abs(unbooked) > bound)
      Object(
          "books: the daemon knows of {:.4f} s of '{}', the device did {:.4f} s since the daemon began; bound {:.4f} s",
          static_cast<double>(seen.record->booked_ns) * 1e-9, seen.tenant->name,
          static_cast<double>(seen.record->worked_since_ns) * 1e-9, bound);
  }

  void CheckProgress(const std::vector<Seen>& here, const Stretch& stretch) {
    for (const Seen& seen : here) {
      const Duration patience =
          PatienceOf(scenario_, run_, *seen.tenant) + MemoryPatienceOf(scenario_, run_, *seen.tenant);
      if (seconds(stretch.to_s - stretch.from_s) < patience) continue;
      if (Sum(seen.record->frames_by_s, stretch.from_s, stretch.to_s) == 0)
        Object("progress: {} … {} s: '{}' finished no frame", stretch.from_s, stretch.to_s, seen.tenant->name);
    }
  }

  static bool AlwaysWants(const Seen& seen, const Stretch& stretch) {
    for (std::int64_t s = stretch.from_s; s < stretch.to_s; ++s)
      if (Sum(seen.record->wanting_ns_by_s, s, s + 1) < kAlways * kSecondNs) return false;
    return seen.settings.cap >= Share::Whole();
  }
  /// Whether the program has almost no CPU time between two frames, so that it competes without a pause. A program with
  /// more CPU time may always want the device, too, while its queued frames run, but policies do not wait for it.
  static bool ComesBackAtOnce(const Seen& seen, double thinks) {
    return seen.tenant->own_limit_fps == 0 && seen.tenant->vsync_hz == 0 && seen.tenant->period == Duration{0} &&
           std::ranges::all_of(seen.tenant->scenes,
                               [&](const Scene& s) { return SecondsOf(s.cpu) <= thinks * SecondsOf(s.gpu); });
  }

  /// The virtual times of programs that always compete are above the least one by at most a quantum and the programs'
  /// own frames (docs/policies/proportional-share.md). That holds at the beginning of a stretch and at its end, so the
  /// slack is twice that.
  void CheckShares(const std::vector<Seen>& here, const Stretch& stretch) {
    const bool turns = stretch.policy == "round-robin";
    const auto weight_of = [&](const Seen& seen) { return turns ? 1.0 : seen.settings.weight; };
    const Duration quantum_time = turns ? core::ParamsFrom<core::RoundRobinParams>(stretch.params).quantum
                                        : core::ParamsFrom<core::ProportionalShareParams>(stretch.params).quantum;
    const double quantum = SecondsOf(quantum_time);
    double all_weights = 0, weights = 0, used = 0, extents = 0;
    std::vector<Seen> wanting;
    for (const Tenant& tenant : scenario_.tenants)
      if (!here.empty() && tenant.device == here.front().tenant->device && Plays(run_, tenant))
        all_weights += turns ? 1.0 : SettingsAt(run_, tenant, seconds(stretch.from_s)).weight;
    for (const Seen& seen : here) {
      if (!AlwaysWants(seen, stretch) || !ComesBackAtOnce(seen, turns ? 0 : kThinks)) continue;
      if (run_.memory == MemoryMode::kElastic && HasMemory(*seen.tenant))
        continue;  // it can use the device only while its slots are there
      wanting.push_back(seen);
      weights += weight_of(seen);
      used += Use(seen, stretch);
      extents += Extent(seen);
    }
    for (const Seen& seen : wanting) {
      const double part = weight_of(seen) / weights;
      const double got = Use(seen, stretch);
      const double slack = 2 * (quantum * (turns ? 2 : part) + Extent(seen) + part * extents) + kWithin * part * used;
      if (wanting.size() > 1 && std::abs(got - part * used) > slack)
        Object(
            "shares: {} … {} s: '{}' used {:.3f} s of {:.3f} s that those used who always wanted the device; its part "
            "is {:.3f}, that is {:.3f} s, the slack {:.3f} s",
            stretch.from_s, stretch.to_s, seen.tenant->name, got, used, part, part * used, slack);
      const double least = kFloor * weight_of(seen) / all_weights * static_cast<double>(stretch.to_s - stretch.from_s);
      if (got < least - slack)
        Object(
            "floor: {} … {} s: '{}' always wanted the device and used {:.3f} s of it; expected {:.3f} s at least, less "
            "a slack of {:.3f} s",
            stretch.from_s, stretch.to_s, seen.tenant->name, got, least, slack);
    }
  }

  static double RateOf(const Seen& seen, const Stretch& stretch) {
    const double preset = core::ParamsFrom<core::SlaAwareParams>(stretch.params).fps;
    const double by_latency = seen.settings.latency > Duration{0} ? 1 / SecondsOf(seen.settings.latency) : 0;
    const double promised = std::max(seen.settings.fps, by_latency);
    return promised > 0 ? promised : preset;
  }

  void CheckRates(const std::vector<Seen>& here, const Stretch& stretch, std::uint32_t device) {
    double demand = 0, longest = 0;
    bool all_paced = true;
    for (const Seen& seen : here) {
      const double rate = RateOf(seen, stretch);
      all_paced = all_paced && rate > 0 && !seen.tenant->compute && !HasMemory(*seen.tenant);
      demand += rate * SecondsOf(MeanFrame(*seen.tenant)) * seen.tenant->processes;
      longest += SecondsOf(LongestFrame(*seen.tenant)) * seen.tenant->processes;
    }
    const double span = static_cast<double>(stretch.to_s - stretch.from_s);
    for (const Seen& seen : here) {
      const double rate = RateOf(seen, stretch);
      if (rate == 0 || seen.tenant->compute) continue;  // tasks have no pace
      const double processes = seen.tenant->processes;
      const double frames = Sum(seen.record->frames_by_s, stretch.from_s, stretch.to_s);
      const double expected = rate * span * processes;
      if (frames > expected * (1 + kWithin) + kFramesMadeGood * processes)
        Object("rates: {} … {} s: '{}' made {:.0f} frames; {:.1f} were promised, {:.0f} more would be a late one's",
               stretch.from_s, stretch.to_s, seen.tenant->name, frames, expected, kFramesMadeGood * processes);
      const double think = SecondsOf(LongestThink(*seen.tenant)) / (1 - scenario_.devices[device].cpu_steal);
      const bool fits = all_paced && demand < kFits && seen.settings.cap >= Share::Whole() &&
                        (seen.tenant->own_limit_fps == 0 || seen.tenant->own_limit_fps > 1.2 * rate) &&
                        seen.tenant->vsync_hz == 0 &&
                        (think + SecondsOf(seen.tenant->present) + longest) * rate < kFitsInterval;
      if (fits && frames < expected * (1 - kWithin) - processes)
        Object("rates: {} … {} s: '{}' made {:.0f} frames; {:.1f} were promised and the device suffices",
               stretch.from_s, stretch.to_s, seen.tenant->name, frames, expected);
    }
  }

  void CheckReserve(const std::vector<Seen>& here, const Stretch& stretch, std::uint32_t device) {
    double weights = 0;
    for (const Tenant& tenant : scenario_.tenants)
      if (tenant.device == device && Plays(run_, tenant))
        weights += SettingsAt(run_, tenant, seconds(stretch.from_s)).weight;
    for (const Seen& seen : here) {
      const double share = seen.settings.weight / weights;
      const double refill = SecondsOf(core::ParamsFrom<core::ReserveParams>(stretch.params).period) * share;
      const double slack = 2 * (Extent(seen) + refill);
      // Checked in each second and in the whole stretch, since small excesses in each second would add up.
      for (std::int64_t s = stretch.from_s; s <= stretch.to_s; ++s) {
        const Stretch part{s < stretch.to_s ? s : stretch.from_s, s < stretch.to_s ? s + 1 : stretch.to_s};
        const double used = Use(seen, part);
        const double span = static_cast<double>(part.to_s - part.from_s);
        if (used > share * span + slack)
          Object("reserve: {} … {} s: '{}' used {:.3f} s; its share is {:.3f} s, the slack {:.3f} s", part.from_s,
                 part.to_s, seen.tenant->name, used, share * span, slack);
      }
    }
  }

  const Scenario& scenario_;
  const Run& run_;
  const RunRecord& record_;
  std::vector<std::string> objections_;
};

}  // namespace

std::vector<Stretch> CalmStretches(const Scenario& scenario, const Run& run, std::uint32_t device) {
  std::vector<Stretch> calm;
  const auto add = [&](Duration from, Duration to) {
    Stretch stretch{(from + kSettled + seconds(1) - nanoseconds(1)) / seconds(1), to / seconds(1), run.policy,
                    run.params};
    if (stretch.to_s <= stretch.from_s) return;
    Duration since{-1};
    for (const ScenarioChange& change : run.changes) {
      if (!change.of_policy() || change.at > from || change.at < since) continue;
      stretch.policy = change.policy;
      stretch.params = change.params;
      since = change.at;
    }
    if (const auto entry = core::FindPolicy(stretch.policy))
      if (auto params = core::CheckParams(**entry, stretch.params)) stretch.params = *std::move(params);
    calm.push_back(std::move(stretch));
  };
  Duration busy_until{};
  for (const Span& span : Disturbances(scenario, run, device)) {
    if (span.from > busy_until) add(busy_until, std::min(span.from, scenario.span));
    busy_until = std::max(busy_until, span.to);
  }
  add(busy_until, scenario.span);
  return calm;
}

Duration LongestFrame(const Tenant& tenant) {
  Duration longest{};
  for (const Scene& scene : tenant.scenes) longest = std::max(longest, LongestOf(scene, scene.gpu));
  return longest;
}
Duration ShortestFrame(const Tenant& tenant) {
  Duration shortest = Duration::max();
  for (const Scene& scene : tenant.scenes)
    shortest = std::min(shortest, FromSeconds(SecondsOf(scene.gpu) * (1 - scene.jitter)));
  return shortest;
}
Duration LongestThink(const Tenant& tenant) {
  Duration longest{};
  for (const Scene& scene : tenant.scenes) longest = std::max(longest, LongestOf(scene, scene.cpu));
  return longest;
}

Duration ExtentOf(const Tenant& tenant) {
  const Duration frame = LongestFrame(tenant);
  const Duration queued =
      tenant.frames_ahead > 0 ? tenant.frames_ahead * frame : tenant.queue * std::min(tenant.batch, frame);
  return tenant.processes * (frame + queued);
}

Duration PatienceOf(const Scenario& scenario, const Run& run, const Tenant& tenant) {
  // For the least part of the device that the tenant had at any time of the run
  double weight = core::kWeightMax, cap = 1, others = 0, extents = 0;
  const auto each = [&](const Tenant& one, auto use) {
    use(SettingsAt(run, one, Duration{0}));
    for (const ScenarioChange& change : run.changes)
      if (change.tenant == one.name) use(change.settings);
  };
  each(tenant, [&](const engine::VgpuSettings& settings) {
    weight = std::min<double>(weight, settings.weight);
    cap = std::min(cap, settings.cap.Fraction());
  });
  for (const Tenant& one : scenario.tenants) {
    if (one.device != tenant.device || !Plays(run, one)) continue;
    extents += SecondsOf(ExtentOf(one));
    if (one.name == tenant.name) continue;
    double most = 0;
    each(one, [&](const engine::VgpuSettings& settings) { most = std::max<double>(most, settings.weight); });
    others += most;
  }
  cap /= MostStaticRatio(run);
  const double part = std::min(cap, weight / (weight + others));
  return kStarvedAfter + FromSeconds(2 * (SecondsOf(ExtentOf(tenant)) / part + extents));
}

Duration MemoryPatienceOf(const Scenario& scenario, const Run& run, const Tenant& tenant) {
  if (run.memory != MemoryMode::kElastic) return Duration{0};
  const auto params = core::ParamsFrom<core::BalloonParams>(run.memory_params);
  const Device& device = scenario.devices[tenant.device];
  double others = 0, slots = 0, extents = 0;
  for (const Tenant& one : scenario.tenants) {
    if (one.device != tenant.device || !Plays(run, one)) continue;
    Bytes most = one.memory;
    for (const Scene& scene : one.scenes) most = std::max(most, scene.memory.value_or(Bytes{}));
    slots += std::ceil(static_cast<double>(most.count) / static_cast<double>(kSlotBytes.count)) * one.processes;
    extents += SecondsOf(ExtentOf(one));
    others += one.name == tenant.name ? 0 : 1;
  }
  // All slots are evicted and restored once, and buffers as large as all slots are copied through, in and out, once.
  const double copies = 4 * slots * static_cast<double>(kSlotBytes.count) / device.link_bytes_per_s;
  const double change = copies + extents + 0.1;
  // A turn is as long as busy_copies switches where tenants' threads wait for CPUs most (docs/memory.md).
  const double most_copies = std::max(params.turn_copies, params.busy_copies);
  const double turn = std::max(SecondsOf(params.turn), most_copies * change);
  return kStarvedAfter + FromSeconds(others * (turn + change) + change);
}

std::vector<std::string> CheckRun(const Scenario& scenario, const Run& run, const RunRecord& record) {
  return Checker(scenario, run, record).All();
}

}  // namespace weir::sim
