// SPDX-License-Identifier: Apache-2.0
// weir plan: the revenue of each way of selling a device, simulated with recorded programs.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "tools/sim/play.h"
#include "tools/sim/selling_plan.h"
#include "tools/sim/trace_file.h"

namespace weir::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kObjected = 1;  // exit status: the simulation ran, but its checkers report errors
constexpr std::int64_t kCustomersMax = 1000;
constexpr Duration kSpanMin = seconds(10), kSpanMax = seconds(1'000'000);
constexpr double kFpsMax = 1000;

struct PlanFlags {
  std::vector<std::string> traces;
  double cap = 0.5;
  std::optional<double> fps;
  Duration span = seconds(300);
  std::int64_t customers = 16;
  std::vector<double> ratios = SellingPlan{}.ratios;
  std::int64_t seed = 1;
  std::vector<NamedValue> params;
  std::string out;
};

Result<double> ParseSoldCap(std::string_view text) {
  WEIR_TRY(const double cap, ParseFraction(text));
  if (cap < 0.01 || cap > 1)
    return Fail(Errc::kInvalidArgument, fmt::format("'{}' is not a cap; it is from 1% to 100% of a device", text));
  return cap;
}

Result<double> ParsePromise(std::string_view text) {
  WEIR_TRY(const double fps, ParseNumber(text));
  if (fps < 0 || fps > kFpsMax)
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not a rate that can be promised; write 0 to {:g} frames/s", text, kFpsMax));
  return fps;
}

Result<Duration> ParseSpan(std::string_view text) {
  WEIR_TRY(const Duration span, ParseDuration(text));
  if (span < kSpanMin || span > kSpanMax)
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not from {:g} to {:g} s", text, SecondsOf(kSpanMin), SecondsOf(kSpanMax)));
  return span;
}

Result<SellingPlan> PlanOf(const PlanFlags& flags) {
  WEIR_TRY(core::PolicyParams params, OversellParamsOf(flags.params));
  if (params.contains("ratio"))
    return Fail(Errc::kInvalidArgument, "not all ways of selling have a parameter ratio; give --ratios");
  WEIR_TRY(params, core::CheckOversellParams(params));
  return SellingPlan{.cap = flags.cap,
                     .fps = flags.fps,
                     .customers = static_cast<int>(flags.customers),
                     .span = flags.span,
                     .seed = static_cast<std::uint64_t>(flags.seed),
                     .ratios = flags.ratios,
                     .params = std::move(params)};
}

ordered_json NumberOrNull(double value) { return std::isnan(value) ? ordered_json(nullptr) : ordered_json(value); }

ordered_json WayJson(const WayOfSelling& way) {
  ordered_json out{{"mode", core::NameOf(way.mode)}};
  if (way.mode == core::OversellMode::kStatic) out["ratio"] = way.ratio;
  out["sold"] = NumberOrNull(way.sold);
  out["sold_ratio"] = NumberOrNull(way.sold_ratio);
  out["device_use"] = NumberOrNull(way.device_use);
  out["broken"] = NumberOrNull(way.broken);
  out["revenue"] = NumberOrNull(way.revenue);
  out["penalty"] = NumberOrNull(way.penalty);
  out["net"] = NumberOrNull(way.net);
  return out;
}

ordered_json PlanJson(const PlanFlags& flags, const SellingPlan& plan, const std::vector<FittedTrace>& traces,
                      const std::vector<WayOfSelling>& ways) {
  ordered_json out{{"cap", plan.cap},
                   {"customers", plan.customers},
                   {"seconds", SecondsOf(plan.span)},
                   {"seed", plan.seed},
                   {"params", plan.params},
                   {"traces", ordered_json::array()},
                   {"ways", ordered_json::array()}};
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const FittedTrace& trace = traces[i];
    out["traces"].push_back({{"file", flags.traces[i]},
                             {"name", Printable(trace.recorded.vgpu)},
                             {"promised_fps", plan.fps.value_or(trace.promised_fps)},
                             {"need", NeedOf(trace, plan)},
                             {"recorded", {{"fps", trace.recorded.fps}, {"gpu_use", trace.recorded.use}}},
                             {"second_half", {{"fps", trace.real.fps}}},
                             {"model_of_second_half", {{"fps", trace.model.fps}}}});
  }
  for (const WayOfSelling& way : ways) out["ways"].push_back(WayJson(way));
  out["best"] = WayJson(BestOf(ways));
  out["verdict"] = VerdictText(ways);
  return out;
}

std::string TracesText(const std::vector<FittedTrace>& traces, const SellingPlan& plan, bool color) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"PROGRAM"},
               {"RECORDED fps", kRight},
               {"MODEL OFF BY", kRight},
               {"OF DEVICE", kRight},
               {"PROMISED fps", kRight},
               {"NEEDS", kRight}});
  for (const FittedTrace& trace : traces) {
    const double promised = plan.fps.value_or(trace.promised_fps), need = NeedOf(trace, plan);
    table.Add({{trace.recorded.vgpu, Style::kStrong},
               {fmt::format("{:.1f}", trace.recorded.fps)},
               {OffText(trace.model.fps, trace.real.fps),
                std::abs(trace.model.fps / trace.real.fps - 1) < 0.05 ? Style::kGood : Style::kWarning},
               {FormatPercent(trace.recorded.use)},
               {promised > 0 ? fmt::format("{:g}", promised) : "the cap"},
               {FormatPercent(need), need > plan.cap ? Style::kBad : Style::kPlain}});
  }
  return table.Render(color);
}

std::string WaysText(const std::vector<WayOfSelling>& ways, bool color) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"SELLING"},
               {"vGPUs", kRight},
               {"RATIO", kRight},
               {"DEVICE USED", kRight},
               {"BROKEN", kRight},
               {"REVENUE/h", kRight},
               {"PENALTY/h", kRight},
               {"NET/h", kRight}});
  const WayOfSelling& best = BestOf(ways);
  for (const WayOfSelling& way : ways)
    table.Add({{NameOf(way), Style::kStrong},
               {fmt::format("{:.0f}", way.sold)},
               {fmt::format("{:.2f}", way.sold_ratio)},
               {FormatPercent(way.device_use)},
               {std::isnan(way.broken) ? "-" : FormatPercent(way.broken)},
               {fmt::format("{:.2f}", way.revenue)},
               {fmt::format("{:.2f}", way.penalty)},
               {fmt::format("{:.2f}", way.net), &way == &best ? Style::kGood : Style::kPlain}});
  return table.Render(color);
}

/// Prints the caveats of the table for an operator.
void PrintDoubts(const std::vector<FittedTrace>& traces, const SellingPlan& plan,
                 const std::vector<WayOfSelling>& ways) {
  for (const FittedTrace& trace : traces)
    if (NeedOf(trace, plan) > plan.cap)
      fmt::print(
          "'{}' needs {} of the device for its promise, and is sold {}: give a higher --cap or a lower "
          "--fps.\n",
          Printable(trace.recorded.vgpu), FormatPercent(NeedOf(trace, plan)), FormatPercent(plan.cap));
  if (ways.front().broken > 0.01)
    fmt::print(
        "Even where nothing is sold twice {} is broken: the cap is too small for the heaviest parts of the "
        "traces, or\na program does not reach the promised rate by itself.\n",
        FormatPercent(ways.front().broken));
}

Result<int> MakePlan(const Session& session, const PlanFlags& flags) {
  WEIR_TRY(const SellingPlan plan, PlanOf(flags));
  std::vector<proto::Trace> recorded;
  for (const std::string& file : flags.traces) {
    WEIR_TRY(proto::Trace trace, LoadTrace(file));
    recorded.push_back(std::move(trace));
  }
  WEIR_TRY(const std::vector<FittedTrace> traces, FitTraces(recorded));
  WEIR_TRY(sim::Scenario scenario, ScenarioOf(traces, plan));
  const Played played = Play(std::move(scenario),
                             {.seed = plan.seed, .keep_frames = !flags.out.empty(), .progress = ProgressBar("plan")});
  const std::vector<WayOfSelling> ways = WaysOf(played.scenario, played.runs);
  if (!flags.out.empty()) WEIR_TRY_STATUS(WriteResults(flags.out, played, {}));
  if (session.json) {
    fmt::print("{}\n", PlanJson(flags, plan, traces, ways).dump(2));
  } else {
    const bool color = StdoutTakesColor();
    fmt::print("{}\n{} customers at most, one after another, a cap of {} each; {} of virtual time, seed {}\n\n{}\n",
               TracesText(traces, plan, color), plan.customers, FormatPercent(plan.cap), FormatDuration(plan.span),
               plan.seed, WaysText(ways, color));
    fmt::print("Best: {}\n", VerdictText(ways));
    PrintDoubts(traces, plan, ways);
    if (!flags.out.empty()) fmt::print("written: {}/report.html, result.json, two CSVs for each run\n", flags.out);
  }
  std::size_t objections = 0;
  for (const sim::RunRecord& run : played.runs)
    for (const std::string& violation : run.violations) {
      if (++objections <= 3) Say(fmt::format("the model objects in {}: {}", run.label, violation));
    }
  return objections == 0 ? 0 : kObjected;
}

constexpr const char* kPlanExamples =
    "  weir record --fps 60 --trace game.wtrace --seconds 60 -- ./game   # a customer's demand\n"
    "  weir plan --trace game.wtrace                     # customers that all run it, half of the device sold to each\n"
    "  weir plan --trace game.wtrace --trace render.wtrace --fps 30 --cap 25%\n"
    "  weir plan --trace game.wtrace --ratios 1.2,1.4 --param penalty=20 --param low_line=0.5\n"
    "  weir plan --trace game.wtrace --customers 40 --seconds 10m --json\n"
    "\n"
    "Utilisation, broken promises and money are defined in docs/oversubscription.md; its parameters are listed by\n"
    "'weir oversell --params'. Amounts have the unit of the prices.\n";

}  // namespace

void AddPlan(Command app, Session& session) {
  auto flags = std::make_shared<PlanFlags>();
  const Command command =
      AddCommand(app, "plan", "Predict the income from each way of selling a device", kPlanExamples, session);
  command
      .Add("--trace", "FILE", flags->traces, "A customer's program, in turn: a trace of 'weir record'; may be repeated")
      .Required();
  command.AddParsed("--cap", "SHARE", flags->cap, ParseSoldCap,
                    "The ceiling that each customer is sold, 0.5 or 50% (default 50%)");
  command.AddParsed("--fps", "N", flags->fps, ParsePromise,
                    "The promised rate; 0: the cap itself is promised (default: that of the trace)");
  command.AddWhole("--customers", "N", flags->customers, 1, kCustomersMax, "Most customers that come (default 16)");
  command.AddParsed("--ratios", "R,R,...", flags->ratios, ParseRatios,
                    "Ratios of static that are tried (default 1.5,2,3,4)");
  command.AddParsed("--seconds", "N", flags->span, ParseSpan, "Virtual time of each way (default 300)");
  command.AddWhole("--seed", "N", flags->seed, "From which point of its trace each customer starts (default 1)");
  command.AddEachParsed("--param", "NAME=VALUE", flags->params, ParseNamedValue,
                        "A parameter of selling, as price or penalty; may be repeated");
  command.Add("--out", "DIR", flags->out, "Write report.html, result.json and CSVs of each run's frames");
  command.WhenGiven([flags, &session] { session.action = [flags, &session] { return MakePlan(session, *flags); }; });
}

}  // namespace weir::cli
