// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/selling_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/prng.h"
#include "sim/metrics.h"

namespace weir::cli {
namespace {

/// Keeps only the frames that a program can begin within `span`.
void CutTo(Duration span, sim::Tenant& tenant) {
  for (std::vector<sim::Demand>& frames : tenant.recorded) {
    Duration own{}, device{};
    std::size_t count = 0;
    for (; count < frames.size() && std::max(own, device) < span; ++count) {
      own += frames[count].cpu + frames[count].present;
      device += frames[count].gpu;
    }
    frames.resize(count);
    frames.shrink_to_fit();
  }
}

sim::Run RunOf(core::OversellMode mode, double ratio, core::PolicyParams params) {
  if (mode == core::OversellMode::kStatic) params["ratio"] = ratio;
  const std::string label = mode == core::OversellMode::kStatic ? fmt::format("static-{:g}", ratio) : NameOf(mode);
  return {.label = label, .policy = "cap", .oversell = mode, .oversell_params = std::move(params)};
}

std::string CommandOf(const WayOfSelling& way) {
  switch (way.mode) {
    case core::OversellMode::kAdaptive: return "weir oversell on";
    case core::OversellMode::kStatic: return fmt::format("weir oversell static --ratio {:g}", way.ratio);
    default: return fmt::format("weir oversell {}", core::NameOf(way.mode));
  }
}

std::string EarnsText(const WayOfSelling& way) {
  return fmt::format("net {:.2f}/h, {} broken", way.net, std::isnan(way.broken) ? "-" : FormatPercent(way.broken));
}

bool Better(const WayOfSelling& a, const WayOfSelling& b) {
  return a.net != b.net ? a.net > b.net : a.broken < b.broken;
}

}  // namespace

Result<std::vector<double>> ParseRatios(std::string_view text) {
  const auto param = std::ranges::find(core::kOversellParams, std::string_view("ratio"), &core::PolicyParam::name);
  std::vector<double> ratios;
  for (const std::string& part : SplitList(text)) {
    const auto ratio = ParseNumber(part);
    if (!ratio || !(*ratio >= param->min && *ratio <= param->max))
      return Fail(Errc::kInvalidArgument,
                  fmt::format("'{}' is not a ratio; write numbers from {:g} to {:g}, ceilings together over what there "
                              "is, as 1.5,2,3",
                              part, param->min, param->max));
    if (std::ranges::find(ratios, *ratio) != ratios.end())
      return Fail(Errc::kInvalidArgument, fmt::format("the ratio {:g} is given twice", *ratio));
    ratios.push_back(*ratio);
  }
  return ratios;
}

Result<core::PolicyParams> OversellParamsOf(std::span<const NamedValue> typed) {
  core::PolicyParams params;
  for (const auto& [name, value] : typed) {
    const double* number = std::get_if<double>(&value);
    if (number == nullptr)
      return Fail(Errc::kInvalidArgument, fmt::format("{}: '{}' is not a number", name, std::get<std::string>(value)));
    params[name] = *number;
  }
  return params;
}

Result<std::vector<FittedTrace>> FitTraces(const std::vector<proto::Trace>& traces) {
  std::vector<std::vector<proto::Trace>> groups;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of each trace: group, index in it
  for (const proto::Trace& trace : traces) {
    const proto::TraceHeader &first = traces.front().header, &its = trace.header;
    if (its.device != first.device || its.device_kind != first.device_kind || its.device_cpus != first.device_cpus)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("'{}' was recorded on the device {} ({}), '{}' on {} ({}): what a frame costs one says "
                              "nothing of the other; give traces of one device",
                              first.vgpu, first.device, first.device_kind, its.vgpu, its.device, its.device_kind));
    WEIR_TRY([[maybe_unused]] const Replay alone, Replay::Make({trace}));
    const auto together = std::ranges::find_if(groups, [&](std::vector<proto::Trace> group) {
      group.push_back(trace);
      return Replay::Make(std::move(group)).has_value();
    });
    places.emplace_back(together - groups.begin(), together == groups.end() ? 0 : together->size());
    (together == groups.end() ? groups.emplace_back() : *together).push_back(trace);
  }
  std::vector<FittedTrace> fitted(traces.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    WEIR_TRY(Replay made, Replay::Make(std::move(groups[group])));
    made.Calibrate();
    const auto replay = std::make_shared<const Replay>(std::move(made));
    const auto real = replay->SecondHalf(), model = replay->PlaySecondHalf();
    for (std::size_t i = 0; i < fitted.size(); ++i) {
      if (places[i].first != group) continue;
      const std::size_t index = places[i].second;
      fitted[i] = {.replay = replay,
                   .index = index,
                   .recorded = replay->recorded()[index],
                   .real = real[index],
                   .model = model[index],
                   .promised_fps = static_cast<double>(traces[i].header.fps_milli) * 1e-3};
    }
  }
  return fitted;
}

double NeedOf(const FittedTrace& trace, const SellingPlan& plan) {
  const double promised = plan.fps.value_or(trace.promised_fps);
  return promised > 0 ? promised * trace.recorded.use / trace.recorded.fps : plan.cap;
}

Result<sim::Scenario> ScenarioOf(const std::vector<FittedTrace>& traces, const SellingPlan& plan) {
  constexpr double kApart = 0.6180339887498949;  // golden ratio: fractional parts of its multiples are spread evenly
  sim::Scenario scenario;
  scenario.name = "plan";
  scenario.title = "What each way of selling would earn";
  scenario.source = fmt::format("{} recorded programs", traces.size());
  scenario.about = fmt::format("Customers run them in turn, each from another point of its trace on, with a cap of {}.",
                               FormatPercent(plan.cap));
  scenario.seed = plan.seed;
  scenario.span = plan.span;
  for (const FittedTrace& trace : traces)
    if (!plan.fps && trace.promised_fps <= 0)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("the trace of '{}' says no promised rate, and so nothing could be broken; give --fps F, "
                              "or --fps 0 where the cap itself is what is promised",
                              trace.recorded.vgpu));
  Prng prng(plan.seed);
  const double first = prng.Uniform();
  for (int i = 0; i < plan.customers; ++i) {
    const FittedTrace& trace = traces[static_cast<std::size_t>(i) % traces.size()];
    const double at = first + i * kApart;
    sim::Tenant tenant = trace.replay->ProgramsFrom(trace.index, at - std::floor(at));
    CutTo(plan.span, tenant);
    tenant.name = fmt::format("{}-{}", trace.recorded.vgpu, i + 1);
    tenant.settings = {};
    tenant.settings.cap = Share::FromFraction(plan.cap);
    tenant.settings.fps = plan.fps.value_or(trace.promised_fps);
    tenant.customer = true;
    scenario.tenants.push_back(std::move(tenant));
  }
  scenario.runs.push_back(RunOf(core::OversellMode::kStrict, 0, plan.params));
  for (const double ratio : plan.ratios)
    scenario.runs.push_back(RunOf(core::OversellMode::kStatic, ratio, plan.params));
  scenario.runs.push_back(RunOf(core::OversellMode::kAdaptive, 0, plan.params));
  return scenario;
}

std::string NameOf(const WayOfSelling& way) {
  return way.mode == core::OversellMode::kStatic ? fmt::format("static {:g}", way.ratio) : core::NameOf(way.mode);
}

std::vector<WayOfSelling> WaysOf(const sim::Scenario& scenario, const std::vector<sim::RunRecord>& runs) {
  std::vector<WayOfSelling> ways;
  for (const sim::Run& run : scenario.runs) {
    const auto figure = [&](const char* metric) {
      const auto value = sim::Measure(runs, {.metric = metric, .run = run.label});
      return value ? *value : std::numeric_limits<double>::quiet_NaN();
    };
    const auto ratio = run.oversell_params.find("ratio");
    ways.push_back({.mode = run.oversell,
                    .ratio = ratio == run.oversell_params.end() ? 0 : ratio->second,
                    .sold = figure("sold"),
                    .sold_ratio = figure("sold_ratio"),
                    .device_use = figure("device_use"),
                    .broken = figure("broken"),
                    .revenue = figure("revenue"),
                    .penalty = figure("penalty"),
                    .net = figure("net")});
  }
  return ways;
}

const WayOfSelling& BestOf(std::span<const WayOfSelling> ways) {
  const WayOfSelling* best = &ways.front();
  for (const WayOfSelling& way : ways)
    if (Better(way, *best)) best = &way;
  return *best;
}

std::string VerdictText(std::span<const WayOfSelling> ways) {
  const WayOfSelling& best = BestOf(ways);
  std::vector<WayOfSelling> others;
  for (const WayOfSelling& way : ways)
    if (&way != &best) others.push_back(way);
  std::string text = fmt::format("{} ({}): {}", NameOf(best), CommandOf(best), EarnsText(best));
  if (others.empty()) return text;
  const WayOfSelling& next = BestOf(others);
  return text + fmt::format("; next comes {}: {}", NameOf(next), EarnsText(next));
}

}  // namespace weir::cli
