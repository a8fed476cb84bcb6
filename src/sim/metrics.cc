// SPDX-License-Identifier: Apache-2.0
#include "sim/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/cluster_metrics.h"
#include "sim/migration_metrics.h"

namespace weir::sim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename F>
void EachFrame(const Window& w, F use) {
  for (const FrameRecord& frame : w.tenant->frames)
    if (frame.end_ns >= w.from_ns && frame.end_ns < w.to_ns) use(frame);
}

template <typename F>
double MeanOf(const Window& w, F figure) {
  double sum = 0;
  std::uint64_t count = 0;
  EachFrame(w, [&](const FrameRecord& frame) {
    sum += figure(frame);
    ++count;
  });
  return count == 0 ? kNan : sum / static_cast<double>(count);
}

double Ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }

std::vector<double> Latencies(const Window& w) {
  std::vector<double> ms;
  EachFrame(w, [&](const FrameRecord& frame) { ms.push_back(Ms(frame.latency_ns)); });
  std::ranges::sort(ms);
  return ms;
}

/// The percentile by nearest rank.
double PercentileMs(const Window& w, double fraction) {
  const std::vector<double> ms = Latencies(w);
  if (ms.empty()) return kNan;
  const double rank = std::ceil(fraction * static_cast<double>(ms.size()));
  return ms[static_cast<std::size_t>(std::clamp(rank, 1.0, static_cast<double>(ms.size()))) - 1];
}

/// Seconds of GPU time in each whole second that lies in the window.
std::vector<double> UseBySecond(const Window& w, const TenantRecord& tenant) {
  std::vector<double> use;
  for (std::int64_t s = (w.from_ns + 999'999'999) / 1'000'000'000; (s + 1) * 1'000'000'000 <= w.to_ns; ++s)
    use.push_back(static_cast<std::size_t>(s) < tenant.gpu_ns_by_s.size()
                      ? static_cast<double>(tenant.gpu_ns_by_s[static_cast<std::size_t>(s)]) * 1e-9
                      : 0.0);
  return use;
}
double MeanUse(const Window& w, const TenantRecord& tenant) {
  const std::vector<double> use = UseBySecond(w, tenant);
  double sum = 0;
  for (const double u : use) sum += u;
  return use.empty() ? kNan : sum / static_cast<double>(use.size());
}
double AllUse(const Window& w) {
  double sum = 0;
  for (const TenantRecord& tenant : w.run->tenants) sum += MeanUse(w, tenant);
  return sum;
}

/// The times in seconds at which the tenant's frames began or ceased to be paced: the switches of the policy hybrid.
std::vector<double> Switches(const Window& w) {
  std::vector<double> at;
  bool first = true;
  bool paced = false;
  EachFrame(w, [&](const FrameRecord& frame) {
    if (!first && frame.paced != paced) at.push_back(static_cast<double>(frame.end_ns) * 1e-9);
    paced = frame.paced;
    first = false;
  });
  return at;
}
double ShortestGap(const std::vector<double>& at) {
  double gap = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < at.size(); ++i) gap = std::min(gap, at[i] - at[i - 1]);
  return gap;
}

constexpr double kSlotMb = static_cast<double>(kSlotBytes.count) / (1 << 20);

double MostMemoryMb(const Window& w) {
  std::uint32_t most = 0;
  std::uint32_t at_begin = 0;
  for (const MemoryHeld& held : w.tenant->memory) {
    if (held.at_ns <= w.from_ns) at_begin = held.slots;
    if (held.at_ns > w.from_ns && held.at_ns < w.to_ns) most = std::max(most, held.slots);
  }
  return std::max(most, at_begin) * kSlotMb;
}
double CopiedMbPerSecond(const Window& w) {
  double slots = 0;
  std::int64_t count = 0;
  for (std::int64_t s = (w.from_ns + 999'999'999) / 1'000'000'000; (s + 1) * 1'000'000'000 <= w.to_ns; ++s, ++count)
    if (static_cast<std::size_t>(s) < w.tenant->copied_slots_by_s.size())
      slots += w.tenant->copied_slots_by_s[static_cast<std::size_t>(s)];
  return count == 0 ? kNan : slots * kSlotMb / static_cast<double>(count);
}

double MostHeldMb(const Window& w) {
  Window held = w;
  TenantRecord tenant;
  tenant.memory = w.tenant->held;
  held.tenant = &tenant;
  return MostMemoryMb(held);
}

double Fps(const Window& w) {
  std::uint64_t count = 0;
  EachFrame(w, [&](const FrameRecord&) { ++count; });
  return static_cast<double>(count) / w.Seconds();
}

// -- Selling

/// The whole seconds of the window during all of which the tenant's program ran, and those of them in which the promise
/// to it was broken. A rate counts as kept down to 5 % below it, as in the node's own reports; frames are counted
/// whole, hence half a frame of tolerance. A share is promised only while the tenant always wants the device.
struct KeptSeconds {
  double all = 0, broken = 0;
};
KeptSeconds KeptOf(const Window& w, const TenantRecord& tenant) {
  constexpr double kTolerance = 0.05, kAllTheTimeNs = 0.9e9;
  KeptSeconds seconds;
  if (tenant.sold_ns < 0 || tenant.best_effort) return seconds;
  const auto at = [](const auto& by_s, std::int64_t s) {
    return static_cast<std::size_t>(s) < by_s.size() ? static_cast<double>(by_s[static_cast<std::size_t>(s)]) : 0.0;
  };
  for (std::int64_t s = (w.from_ns + 999'999'999) / 1'000'000'000; (s + 1) * 1'000'000'000 <= w.to_ns; ++s) {
    const double wanting = at(tenant.wanting_ns_by_s, s);
    const bool before = s > 0 && at(tenant.wanting_ns_by_s, s - 1) > 0, after = at(tenant.wanting_ns_by_s, s + 1) > 0;
    const bool last = (s + 2) * 1'000'000'000 > w.run->span_ns;
    if (wanting <= 0 || !before || (!after && !last)) continue;
    ++seconds.all;
    const bool slow =
        tenant.promised_fps > 0 && at(tenant.frames_by_s, s) < tenant.promised_fps * (1 - kTolerance) - 0.5;
    const bool denied = tenant.promised_fps <= 0 && wanting >= kAllTheTimeNs &&
                        at(tenant.gpu_ns_by_s, s) < (1 - kTolerance) * tenant.ceiling * 1e9;
    if (slow || denied) ++seconds.broken;
  }
  return seconds;
}
double BrokenPart(const Window& w) {
  KeptSeconds sum;
  for (const TenantRecord& tenant : w.run->tenants) {
    const KeptSeconds one = KeptOf(w, tenant);
    sum.all += one.all;
    sum.broken += one.broken;
  }
  return sum.all > 0 ? sum.broken / sum.all : kNan;
}

/// Part of the window's whole seconds in which at least one tenant's promise was broken.
double BrokenTime(const Window& w) {
  double broken = 0, all = 0;
  for (std::int64_t s = (w.from_ns + 999'999'999) / 1'000'000'000; (s + 1) * 1'000'000'000 <= w.to_ns; ++s, ++all) {
    const Window second{.run = w.run, .from_ns = s * 1'000'000'000, .to_ns = (s + 1) * 1'000'000'000};
    broken += std::ranges::any_of(w.run->tenants, [&](const TenantRecord& t) { return KeptOf(second, t).broken > 0; });
  }
  return all > 0 ? broken / all : kNan;
}

bool SoldBy(const TenantRecord& tenant, std::int64_t at_ns) { return tenant.sold_ns >= 0 && tenant.sold_ns < at_ns; }
bool StaysUntil(const TenantRecord& tenant, std::int64_t at_ns) {
  return tenant.left_ns < 0 || tenant.left_ns >= at_ns;
}

/// The number of vGPUs that are sold at the window's end.
double Sold(const Window& w) {
  double sum = 0;
  for (const TenantRecord& tenant : w.run->tenants)
    sum += SoldBy(tenant, w.to_ns) && StaysUntil(tenant, w.to_ns) ? 1 : 0;
  return sum;
}
/// The sum of their ceilings, best effort left out, over the number of devices.
double SoldRatio(const Window& w) {
  double sum = 0;
  for (const TenantRecord& tenant : w.run->tenants)
    if (SoldBy(tenant, w.to_ns) && StaysUntil(tenant, w.to_ns) && !tenant.best_effort) sum += tenant.ceiling;
  return sum / static_cast<double>(std::max<std::size_t>(w.run->device_busy_ns.size(), 1));
}

/// Revenue, penalty and cost of all devices together, per hour of the window.
core::Account AccountOf(const Window& w) {
  core::Account account;
  const core::Prices& prices = w.run->prices;
  for (const TenantRecord& tenant : w.run->tenants) {
    if (!SoldBy(tenant, w.to_ns)) continue;
    const std::int64_t to_ns = StaysUntil(tenant, w.to_ns) ? w.to_ns : tenant.left_ns;
    const Duration span{std::max<std::int64_t>(to_ns - std::max(w.from_ns, tenant.sold_ns), 0)};
    account.Book(prices, tenant.ceiling, tenant.best_effort, span, false, false);
    account.Book(prices, tenant.ceiling, tenant.best_effort, FromSeconds(KeptOf(w, tenant).broken), true, true);
    // Both calls above have booked the revenue of the broken seconds.
    account.revenue -= prices.device_hour / 3600 * tenant.ceiling * KeptOf(w, tenant).broken;
  }
  account.BookDevice(prices, Duration{(w.to_ns - w.from_ns) * static_cast<std::int64_t>(w.run->device_busy_ns.size())});
  const double hours = w.Seconds() / 3600;
  account.revenue /= hours, account.penalty /= hours, account.cost /= hours;
  return account;
}

constexpr std::array kMetrics{
    Metric{"fps", "frames/s", "frames in the window over its length", true, &Fps},
    Metric{"late", "fraction", "frames whose latency is over `parameter` ms", true,
           [](const Window& w) {
             return MeanOf(w, [&](const FrameRecord& f) { return Ms(f.latency_ns) > w.parameter ? 1.0 : 0.0; });
           }},
    Metric{"latency_ms", "ms", "mean frame latency", true,
           [](const Window& w) { return MeanOf(w, [](const FrameRecord& f) { return Ms(f.latency_ns); }); }},
    Metric{"percentile_ms", "ms", "`parameter` of the frames (0.99, say) have no longer latency", true,
           [](const Window& w) { return PercentileMs(w, w.parameter); }},
    Metric{"max_ms", "ms", "longest frame latency", true, [](const Window& w) { return PercentileMs(w, 1.0); }},
    Metric{"present_ms", "ms", "mean time of the driver's present", true,
           [](const Window& w) { return MeanOf(w, [](const FrameRecord& f) { return Ms(f.took_ns); }); }},
    Metric{"input_ms", "ms", "mean time from input to present: from a frame's start to the return of its present", true,
           [](const Window& w) { return MeanOf(w, [](const FrameRecord& f) { return Ms(f.input_ns); }); }},
    Metric{"pace_ms", "ms", "mean delay of a frame", true,
           [](const Window& w) { return MeanOf(w, [](const FrameRecord& f) { return Ms(f.pace_ns); }); }},
    Metric{"wait_ms", "ms", "mean wait of a frame at its gate", true,
           [](const Window& w) { return MeanOf(w, [](const FrameRecord& f) { return Ms(f.wait_ns); }); }},
    Metric{"mispredicted", "fraction", "presents predicted wrongly by more than 2 ms", true,
           [](const Window& w) {
             return MeanOf(
                 w, [](const FrameRecord& f) { return std::abs(Ms(f.took_ns - f.predicted_ns)) > 2 ? 1.0 : 0.0; });
           }},
    Metric{"gpu_use", "fraction", "of the device's time", true, [](const Window& w) { return MeanUse(w, *w.tenant); }},
    Metric{"gpu_share", "fraction", "of the GPU time that all used", true,
           [](const Window& w) { return MeanUse(w, *w.tenant) / AllUse(w); }},
    Metric{"use_range", "fraction", "largest less least use of a second, over the mean", true,
           [](const Window& w) {
             const std::vector<double> use = UseBySecond(w, *w.tenant);
             if (use.empty()) return kNan;
             const auto [least, most] = std::ranges::minmax_element(use);
             return (*most - *least) / MeanUse(w, *w.tenant);
           }},
    Metric{"memory_mb", "MiB", "most device memory held at a time", true, &MostMemoryMb},
    Metric{"held_mb", "MiB", "most that elastic memory let it have at a time", true, &MostHeldMb},
    Metric{"copied_mb_s", "MiB/s", "copied to the device, in whole seconds of the window", true, &CopiedMbPerSecond},
    Metric{"device_use", "fraction", "of the device's time, by all", false, &AllUse},
    Metric{"sold", "vGPUs", "sold by the window's end", false, &Sold},
    Metric{"sold_ratio", "devices", "their ceilings, best effort not counted, over the devices", false, &SoldRatio},
    Metric{
        "sold_at_s", "s", "when the tenant's vGPU was sold", true,
        [](const Window& w) { return w.tenant->sold_ns < 0 ? kNan : static_cast<double>(w.tenant->sold_ns) * 1e-9; }},
    Metric{"broken", "fraction", "of all vGPUs' whole seconds, those without what was promised", false, &BrokenPart},
    Metric{"broken_time", "fraction", "of the seconds, those in which somebody's promise was broken", false,
           &BrokenTime},
    Metric{"tenant_broken", "fraction", "the same of one tenant", true,
           [](const Window& w) {
             const KeptSeconds kept = KeptOf(w, *w.tenant);
             return kept.all > 0 ? kept.broken / kept.all : kNan;
           }},
    Metric{"revenue", "per hour", "what was sold earned", false, [](const Window& w) { return AccountOf(w).revenue; }},
    Metric{"penalty", "per hour", "broken promises cost", false, [](const Window& w) { return AccountOf(w).penalty; }},
    Metric{"net", "per hour", "revenue less penalty and the devices' cost", false,
           [](const Window& w) { return AccountOf(w).Net(); }},
    Metric{"switches", "", "how often pacing began or ended", true,
           [](const Window& w) { return static_cast<double>(Switches(w).size()); }},
    Metric{"first_switch_s", "s", "when it did so first", true,
           [](const Window& w) { return Switches(w).empty() ? kNan : Switches(w).front(); }},
    Metric{"shortest_gap_s", "s", "the shortest time between two switches", true,
           [](const Window& w) { return ShortestGap(Switches(w)); }},
    Metric{"turnaround_s", "s", "from a task's start until its client has its outputs", true, &TaskTurnaround},
    Metric{"transfer_s", "s", "a task's inputs, client to its node", true, &TaskTransfer},
    Metric{"input_s", "s", "its inputs, host to device", true, &TaskInput},
    Metric{"kernel_s", "s", "its kernel", true, &TaskKernel},
    Metric{"output_s", "s", "its outputs, device to host", true, &TaskOutput},
    Metric{"return_s", "s", "its outputs, node to client", true, &TaskReturn},
    Metric{"copies_s", "s", "input_s and output_s", true, &TaskInOut},
    Metric{"gpu_part_s", "s", "copies_s and kernel_s", true, &TaskGpuPart},
    Metric{"network_mb", "MiB", "between nodes, both ways", true, &TaskNetworkMb},
    Metric{"kept", "fraction", "of its groups that ran on its node", true, &TaskKept},
    Metric{"pieces", "", "in which they did", true, &TaskPieces},
    Metric{"planning_part", "fraction", "of the time that migration added: asking and deciding", true,
           &TaskPlanningPart},
    Metric{"makespan_s", "s", "from the first submission until the last run is done", false, &Makespan},
    Metric{"busy", "fraction", "of all devices' time until then: a kernel was running", false, &KernelBusy},
    Metric{"processing", "fraction", "of the time in which one was running: threads that were busy", false,
           &Processing},
    Metric{"slowdown", "", "a kernel's time over its time alone, mean over its runs", true, &KernelSlowdown},
    Metric{"kernel_run_s", "s", "a kernel's time, mean over its runs", true, &KernelMeanTime},
    Metric{"runs_done", "", "of kernels", false, &RunsDone},
    Metric{"devices_used", "", "that ran a kernel", false, &DevicesUsed},
    Metric{"transfer_spread", "fraction", "the longest transfer_s over the shortest, less 1", false, &TransferSpread},
};

const Metric* FindMetric(std::string_view name) {
  for (const Metric& metric : kMetrics)
    if (metric.name == name) return &metric;
  return nullptr;
}

/// A window may end this much after its run: runs end with the last look.
constexpr std::int64_t kSpanSlackNs = 1'000'000'000;

Result<double> Value(const Metric& metric, const RunRecord& run, const std::string& tenant,
                     const Expectation& expectation) {
  Window window{.run = &run, .parameter = expectation.parameter};
  const bool whole = expectation.from_s == 0 && expectation.to_s == 0;
  window.from_ns = whole ? run.warm_up_ns : static_cast<std::int64_t>(expectation.from_s * 1e9);
  window.to_ns = expectation.to_s > 0 ? static_cast<std::int64_t>(expectation.to_s * 1e9) : run.span_ns;
  // A run of no length is that of a scenario whose names are checked before it is played.
  if (run.span_ns > 0 && (window.to_ns <= window.from_ns || window.to_ns > run.span_ns + kSpanSlackNs))
    return Fail(Errc::kInvalidArgument,
                fmt::format("{} of run '{}': the window {:g} … {:g} s is empty or not within the run's {:g} s",
                            metric.name, run.label, static_cast<double>(window.from_ns) / 1e9,
                            static_cast<double>(window.to_ns) / 1e9, static_cast<double>(run.span_ns) / 1e9));
  for (const TenantRecord& one : run.tenants)
    if (one.name == tenant) window.tenant = &one;
  if (metric.of_tenant && window.tenant == nullptr)
    return Fail(Errc::kNotFound, fmt::format("run '{}' has no tenant '{}'", run.label, tenant));
  const double value = metric.value(window);
  if (std::isnan(value))
    return Fail(Errc::kInvalidArgument, fmt::format("{} of '{}' in run '{}' can't be reckoned: nothing in the window",
                                                    metric.name, tenant, run.label));
  return value;
}

const RunRecord* FindRun(std::span<const RunRecord> runs, std::string_view label) {
  for (const RunRecord& run : runs)
    if (run.label == label) return &run;
  return nullptr;
}

/// The value of one tenant or, of a name "begin*", the sum over all tenants whose names begin so.
Result<double> ValueOfAll(const Metric& metric, const RunRecord& run, const std::string& tenant,
                          const Expectation& expectation) {
  if (!tenant.ends_with('*')) return Value(metric, run, tenant, expectation);
  const std::string_view begin = std::string_view(tenant).substr(0, tenant.size() - 1);
  double sum = 0;
  bool any = false;
  for (const TenantRecord& one : run.tenants) {
    if (!one.name.starts_with(begin)) continue;
    WEIR_TRY(const double value, Value(metric, run, one.name, expectation));
    sum += value;
    any = true;
  }
  if (!any) return Fail(Errc::kNotFound, fmt::format("run '{}' has no tenant '{}'", run.label, tenant));
  return sum;
}

/// "fit:WHAT:METRIC:METRIC", such as "fit:exponent:pace_ms:fps": fits a curve to the points (x, y) of all runs whose
/// labels begin with `run`; x is the first metric, y the second. WHAT `exponent` and `r2` are those of y = a·x^b;
/// `slope`, `intercept` and `line_r2` those of y = a + b·x. The tenant of y is `per_tenant`, if given.
Result<double> Fit(std::span<const RunRecord> runs, const Expectation& expectation) {
  std::array<std::string_view, 4> part{};
  std::string_view rest = expectation.metric;
  for (std::string_view& one : part) {
    one = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  const Metric* x = FindMetric(part[2]);
  const Metric* y = FindMetric(part[3]);
  if (x == nullptr || y == nullptr)
    return Fail(Errc::kNotFound, fmt::format("'{}' is not fit:WHAT:METRIC:METRIC", expectation.metric));
  static constexpr std::array<std::string_view, 5> kWhats{"exponent", "r2", "slope", "intercept", "line_r2"};
  if (std::ranges::find(kWhats, part[1]) == kWhats.end())
    return Fail(Errc::kNotFound,
                fmt::format("'{}' fits nothing: exponent, r2, slope, intercept or line_r2", expectation.metric));
  const bool power = part[1] == "exponent" || part[1] == "r2";
  std::vector<std::pair<double, double>> points;
  for (const RunRecord& run : runs) {
    if (!run.label.starts_with(expectation.run)) continue;
    WEIR_TRY(const double px, Value(*x, run, expectation.tenant, expectation));
    const std::string& other = expectation.per_tenant.empty() ? expectation.tenant : expectation.per_tenant;
    WEIR_TRY(const double py, Value(*y, run, other, expectation));
    if (power && (px <= 0 || py <= 0)) continue;
    points.emplace_back(power ? std::log(px) : px, power ? std::log(py) : py);
  }
  if (points.size() < 3)
    return Fail(Errc::kInvalidArgument,
                fmt::format("{} runs called '{}…' are too few for a fit", points.size(), expectation.run));
  const Line line = FitLine(points);
  if (part[1] == "intercept") return line.a;
  return part[1] == "exponent" || part[1] == "slope" ? line.b : line.r2;
}

/// "mean:METRIC", "most:METRIC", "least:METRIC": over all runs whose labels begin with `run`. With `per_run`, the value
/// of each run is divided by that of the run with the same rest of the label after `per_run`.
Result<double> OverRuns(std::span<const RunRecord> runs, const Expectation& expectation) {
  const std::string what = expectation.metric.substr(0, expectation.metric.find(':'));
  std::vector<double> values;
  for (const RunRecord& run : runs) {
    if (!run.label.starts_with(expectation.run)) continue;
    Expectation one = expectation;
    one.metric = expectation.metric.substr(what.size() + 1);
    one.run = run.label;
    if (!one.per_run.empty()) one.per_run += run.label.substr(expectation.run.size());
    WEIR_TRY(const double value, Measure(runs, one));
    values.push_back(value);
  }
  if (values.empty()) return Fail(Errc::kNotFound, fmt::format("no run is called '{}…'", expectation.run));
  if (what == "most") return *std::ranges::max_element(values);
  if (what == "least") return *std::ranges::min_element(values);
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

std::span<const Metric> MetricTable() { return kMetrics; }

Line FitLine(std::span<const std::pair<double, double>> points) {
  const auto n = static_cast<double>(points.size());
  double mx = 0, my = 0, sxx = 0, sxy = 0, syy = 0;
  for (const auto& [x, y] : points) mx += x / n, my += y / n;
  for (const auto& [x, y] : points) {
    sxx += (x - mx) * (x - mx);
    sxy += (x - mx) * (y - my);
    syy += (y - my) * (y - my);
  }
  if (sxx == 0) return {my, 0, 0};
  return {my - sxy / sxx * mx, sxy / sxx, syy == 0 ? 1 : sxy * sxy / (sxx * syy)};
}

Result<double> Measure(std::span<const RunRecord> runs, const Expectation& expectation) {
  if (!expectation.parts.empty()) {
    double sum = 0;
    for (const Part& part : expectation.parts) {
      Expectation one = expectation;
      one.parts.clear();
      one.tenant = part.tenant;
      one.from_s = part.from_s, one.to_s = part.to_s;
      WEIR_TRY(const double value, Measure(runs, one));
      sum += value;
    }
    return sum / static_cast<double>(expectation.parts.size());
  }
  if (expectation.metric.starts_with("fit:")) return Fit(runs, expectation);
  for (const std::string_view over : {"mean:", "most:", "least:"})
    if (expectation.metric.starts_with(over)) return OverRuns(runs, expectation);
  const Metric* metric = FindMetric(expectation.metric);
  if (metric == nullptr)
    return Fail(Errc::kNotFound, fmt::format("no metric '{}'; docs/scenarios.md lists them", expectation.metric));
  const RunRecord* run = FindRun(runs, expectation.run);
  if (run == nullptr) return Fail(Errc::kNotFound, fmt::format("no run '{}'", expectation.run));
  WEIR_TRY(double value, ValueOfAll(*metric, *run, expectation.tenant, expectation));
  if (expectation.per_run.empty() && expectation.per_tenant.empty()) return value;
  const RunRecord* base = expectation.per_run.empty() ? run : FindRun(runs, expectation.per_run);
  if (base == nullptr) return Fail(Errc::kNotFound, fmt::format("no run '{}'", expectation.per_run));
  WEIR_TRY(const double of,
           ValueOfAll(*metric, *base, expectation.per_tenant.empty() ? expectation.tenant : expectation.per_tenant,
                      expectation));
  if (of == 0) return Fail(Errc::kInvalidArgument, fmt::format("{} is compared with 0", expectation.metric));
  return value / of;
}

Result<Verdict> Judge(std::span<const RunRecord> runs, const Expectation& expectation) {
  WEIR_TRY(const double value, Measure(runs, expectation));
  const bool met = (!expectation.min || value >= *expectation.min) && (!expectation.max || value <= *expectation.max);
  return Verdict{value, met};
}

}  // namespace weir::sim
