// SPDX-License-Identifier: Apache-2.0
// Checks what was sold from the scenario and the run's record alone. Of core/oversubscribe it uses only the names.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/checkers.h"

namespace weir::sim {
namespace {

class SellingChecker {
 public:
  SellingChecker(const Scenario& scenario, const Run& run, const RunRecord& record)
      : scenario_(scenario), run_(run), record_(record) {}

  std::vector<std::string> All() {
    if (!Sells(run_)) return {};
    for (std::uint32_t device = 0; device < scenario_.devices.size(); ++device) {
      CheckSums(device);
      CheckRefusals(device);
      for (const Stretch& stretch : CalmStretches(scenario_, run_, device))
        for (const Stretch& quiet : Quiet(device, stretch)) CheckQuiet(device, quiet);
    }
    return std::move(objections_);
  }

 private:
  static constexpr std::int64_t kSecondNs = 1'000'000'000;
  static constexpr double kAlmost = 1e-3;  // of the device; for rounding: ceilings are whole millionths
  /// In shorter stretches, in seconds, single frames weigh too much.
  static constexpr std::int64_t kQuietMin = 3;
  /// A tenant always wants the device if it waited, queued or ran for kAlways of every second, and its frames have at
  /// most kThinks of their GPU time as CPU time. With more CPU time it could not use all of its ceiling.
  static constexpr double kAlways = 0.98;
  static constexpr double kThinks = 0.03;
  /// Tolerance of a guaranteed ceiling.
  static constexpr double kWithin = 0.03;
  /// A promised rate must be kept if it needs at most kFits of the ceiling, and if a frame, after one frame of each
  /// other tenant, needs at most kFitsInterval of the time between two frames.
  static constexpr double kFits = 0.6;
  static constexpr double kFitsInterval = 0.8;
  static constexpr double kKeptRate = 0.95;  // as in the node's reports and in sim/metrics.cc
  /// If a tenant always wants a part of the device, at least kNotIdle of that part is used: the caps of other tenants
  /// stay a tenth above their use.
  static constexpr double kNotIdle = 0.85;

  struct Sold {
    const Tenant* tenant;
    const TenantRecord* record;
    SaleTerms terms;
  };

  template <typename... T>
  void Object(fmt::format_string<T...> text, T&&... values) {
    objections_.push_back("selling: " + fmt::format(text, std::forward<T>(values)...));
  }

  /// The vGPUs that are sold at a moment, with their terms then.
  std::vector<Sold> SoldAt(std::uint32_t device, std::int64_t at_ns) const {
    std::vector<Sold> sold;
    for (const TenantRecord& record : record_.tenants)
      for (const Tenant& tenant : scenario_.tenants) {
        if (tenant.name != record.name || tenant.device != device) continue;
        const SaleTerms* terms = nullptr;
        for (const SaleTerms& one : record.terms)
          if (one.at_ns <= at_ns) terms = &one;
        if (terms != nullptr && (record.left_ns < 0 || record.left_ns > at_ns))
          sold.push_back({&tenant, &record, *terms});
      }
    return sold;
  }
  /// The sum of ceilings: of guaranteed vGPUs, and unless `firm_alone` also of oversold ones.
  static double Ceilings(const std::vector<Sold>& sold, bool firm_alone) {
    double sum = 0;
    for (const Sold& one : sold) {
      const bool firm = one.terms.sale == core::Sale::kGuaranteed;
      if (firm || (!firm_alone && one.terms.sale == core::Sale::kOversold)) sum += one.terms.ceiling;
    }
    return sum;
  }
  SellingMode ModeAt(std::uint32_t device, std::int64_t at_ns) const {
    SellingMode mode{};
    for (const SellingMode& one : record_.selling)
      if (one.device == device && one.at_ns <= at_ns) mode = one;
    return mode;
  }
  /// The largest sum of ceilings that the mode permits.
  static double MostOf(const SellingMode& mode) {
    if (mode.mode == core::OversellMode::kStrict) return 1;
    return mode.mode == core::OversellMode::kStatic ? mode.ratio : HUGE_VAL;
  }

  /// Checks the sums of ceilings at each sale and at each change of the mode.
  void CheckSums(std::uint32_t device) {
    const auto check = [&](std::int64_t at_ns) {
      const SellingMode mode = ModeAt(device, at_ns);
      const double sum = Ceilings(SoldAt(device, at_ns), false);
      if (sum > MostOf(mode) + kAlmost)
        Object("{:.3f} s: {:.3f} of device {} is sold, and {} allows {:g}", static_cast<double>(at_ns) * 1e-9, sum,
               device, core::NameOf(mode.mode), MostOf(mode));
      const double firm = Ceilings(SoldAt(device, at_ns), true);
      if (mode.mode == core::OversellMode::kAdaptive && firm > 1 + kAlmost)
        Object("{:.3f} s: {:.3f} of device {} is sold firmly", static_cast<double>(at_ns) * 1e-9, firm, device);
    };
    for (const TenantRecord& record : record_.tenants)
      for (const SaleTerms& terms : record.terms) check(terms.at_ns);
    for (const SellingMode& mode : record_.selling)
      if (mode.device == device) check(mode.at_ns);
  }

  /// No request was refused that would have fitted.
  void CheckRefusals(std::uint32_t device) {
    if (run_.memory == MemoryMode::kElastic) return;  // a request may have been refused for its minimum of memory
    for (const SaleRefused& refused : record_.refused) {
      if (refused.device != device) continue;
      std::vector<Sold> sold = SoldAt(device, refused.at_ns);
      SellingMode mode = ModeAt(device, refused.at_ns);
      if (refused.tenant.empty()) {
        mode.mode = refused.mode;
        mode.ratio = refused.ceiling;
        if (Ceilings(sold, false) <= MostOf(mode) - kAlmost)
          Object("{:.3f} s: {} is refused on device {}, of which {:.3f} is sold",
                 static_cast<double>(refused.at_ns) * 1e-9, core::NameOf(mode.mode), device, Ceilings(sold, false));
        continue;
      }
      std::erase_if(sold, [&](const Sold& one) { return one.record->name == refused.tenant; });
      const bool adaptive = mode.mode == core::OversellMode::kAdaptive;
      const double most = adaptive ? 1 : MostOf(mode);
      const double sum = Ceilings(sold, adaptive);
      if (sum + refused.ceiling <= most - kAlmost)
        Object("{:.3f} s: {:.3f} is refused to '{}', and {:.3f} of {:g} is sold",
               static_cast<double>(refused.at_ns) * 1e-9, refused.ceiling, refused.tenant, sum, most);
    }
  }

  /// The parts of a stretch that begin kSettled after a sale or a removal, and end before the next one.
  std::vector<Stretch> Quiet(std::uint32_t device, const Stretch& stretch) const {
    std::vector<std::int64_t> moments{(stretch.from_s - kSettled / seconds(1)) * kSecondNs, stretch.to_s * kSecondNs};
    for (const Sold& one : SoldAt(device, stretch.to_s * kSecondNs)) moments.push_back(one.terms.at_ns);
    for (const TenantRecord& record : record_.tenants) moments.push_back(record.left_ns);
    std::ranges::sort(moments);
    std::vector<Stretch> quiet;
    for (std::size_t i = 0; i + 1 < moments.size(); ++i) {
      Stretch part = stretch;
      part.from_s = std::max(stretch.from_s, (moments[i] + kSettled.count() + kSecondNs - 1) / kSecondNs);
      part.to_s = std::min(stretch.to_s, moments[i + 1] / kSecondNs);
      if (part.to_s - part.from_s >= kQuietMin) quiet.push_back(part);
    }
    return quiet;
  }

  template <typename T>
  static double Sum(const std::vector<T>& by_second, const Stretch& stretch) {
    double sum = 0;
    for (std::int64_t s = stretch.from_s; s < stretch.to_s && s < static_cast<std::int64_t>(by_second.size()); ++s)
      sum += static_cast<double>(by_second[static_cast<std::size_t>(s)]);
    return sum;
  }
  static bool AlwaysWants(const Sold& one, const Stretch& stretch) {
    if (one.tenant->own_limit_fps > 0 || one.tenant->vsync_hz > 0 || one.tenant->period > Duration{0}) return false;
    for (std::int64_t s = stretch.from_s; s < stretch.to_s; ++s)
      if (Sum(one.record->wanting_ns_by_s, {s, s + 1}) < kAlways * kSecondNs) return false;
    return std::ranges::all_of(one.tenant->scenes, [&](const Scene& scene) {
      return SecondsOf(scene.cpu + one.tenant->present) <= kThinks * SecondsOf(scene.gpu);
    });
  }

  static bool IsThere(const Tenant& tenant, const Stretch& stretch) {
    return tenant.start <= seconds(stretch.from_s) &&
           (tenant.end == Duration{0} || tenant.end >= seconds(stretch.to_s));
  }

  /// Checks guarantees, and that the device is not left idle, in a stretch without sales and changes.
  void CheckQuiet(std::uint32_t device, const Stretch& stretch) {
    const SellingMode mode = ModeAt(device, stretch.from_s * kSecondNs);
    const auto regain = run_.oversell_params.find("regain");
    if (stretch.policy != "cap" || run_.memory == MemoryMode::kElastic ||
        (regain != run_.oversell_params.end() && regain->second < 0.5) ||
        (mode.mode != core::OversellMode::kStrict && mode.mode != core::OversellMode::kAdaptive))
      return;
    const std::vector<Sold> sold = SoldAt(device, stretch.from_s * kSecondNs);
    double extents = 0, frames = 0, used = 0, shortest = 1, wanted = 0;
    for (const Sold& one : sold) {
      extents += SecondsOf(ExtentOf(*one.tenant));
      frames += SecondsOf(LongestFrame(*one.tenant)) * one.tenant->processes;
      used += Sum(one.record->gpu_ns_by_s, stretch) * 1e-9;
      if (AlwaysWants(one, stretch)) wanted = std::max(wanted, one.terms.ceiling);
      for (const Scene& scene : one.tenant->scenes)
        shortest = std::min({shortest, SecondsOf(one.tenant->batch), SecondsOf(scene.gpu) * (1 - scene.jitter)});
    }
    const double span = static_cast<double>(stretch.to_s - stretch.from_s);
    // The part of the device's time that switches between tenants leave
    const double useful = 1 - std::min(SecondsOf(scenario_.devices[device].model.switch_cost) / shortest, 0.9);
    if (mode.mode == core::OversellMode::kAdaptive && used < kNotIdle * useful * wanted * span - 2 * extents)
      Object("{} … {} s: {:.3f} s of device {} is used, and one with {:.3f} of it always wants it", stretch.from_s,
             stretch.to_s, used, device, wanted);
    for (const Sold& one : sold)
      if (one.terms.sale == core::Sale::kGuaranteed && IsThere(*one.tenant, stretch))
        CheckFirm(one, stretch, device, useful, extents, frames);
  }

  void CheckFirm(const Sold& one, const Stretch& stretch, std::uint32_t device, double useful, double extents,
                 double frames) {
    const double span = static_cast<double>(stretch.to_s - stretch.from_s);
    const double got = Sum(one.record->gpu_ns_by_s, stretch) * 1e-9;
    if (one.terms.fps <= 0) {
      const double floor = one.terms.ceiling * span * useful * (1 - kWithin) - 2 * extents;
      if (AlwaysWants(one, stretch) && got < floor)
        Object(
            "{} … {} s: '{}' was sold {:.3f} of the device firmly, always wants it and used {:.3f} s; at least {:.3f} "
            "s",
            stretch.from_s, stretch.to_s, one.record->name, one.terms.ceiling, got, floor);
      return;
    }
    const Tenant& tenant = *one.tenant;
    const double processes = tenant.processes;
    const double think = SecondsOf(LongestThink(tenant)) / (1 - scenario_.devices[device].cpu_steal);
    const bool fits = !tenant.compute && SecondsOf(LongestFrame(tenant)) * one.terms.fps < kFits * one.terms.ceiling &&
                      (think + SecondsOf(tenant.present) + frames) * one.terms.fps / processes < kFitsInterval &&
                      (tenant.own_limit_fps == 0 || tenant.own_limit_fps * processes > 1.2 * one.terms.fps) &&
                      tenant.vsync_hz == 0;
    const double shown = Sum(one.record->frames_by_s, stretch);
    if (fits && shown < one.terms.fps * span * kKeptRate - 1)
      Object("{} … {} s: '{}' was sold {:.3f} of the device firmly and {:g} frames/s, and showed {:.0f}",
             stretch.from_s, stretch.to_s, one.record->name, one.terms.ceiling, one.terms.fps, shown);
  }

  const Scenario& scenario_;
  const Run& run_;
  const RunRecord& record_;
  std::vector<std::string> objections_;
};

}  // namespace

bool Sells(const Run& run) {
  return run.oversell != core::OversellMode::kOff ||
         std::ranges::any_of(run.changes, [](const ScenarioChange& change) { return change.oversell.has_value(); });
}

std::vector<std::string> CheckSelling(const Scenario& scenario, const Run& run, const RunRecord& record) {
  return SellingChecker(scenario, run, record).All();
}

}  // namespace weir::sim
