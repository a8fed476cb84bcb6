// SPDX-License-Identifier: Apache-2.0
// weir sim: the product's engine with modelled devices and programs in virtual time.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/options.h"
#include "tools/sim/play.h"
#include "tools/sim/scenario_file.h"
#include "tools/sim/swarm_command.h"

namespace weir::cli {
namespace {

constexpr int kNotMet = 1;  // exit status: a scenario's expectation was not met
constexpr std::int64_t kSeedsMax = 1'000'000'000;
constexpr std::int64_t kSeedMax = std::int64_t{1} << 62;  // leaves room for kSeedsMax seeds after it

struct SimFlags {
  std::string scenario;                // of `weir sim run`
  std::vector<std::string> scenarios;  // of `weir sim check`
  std::int64_t seed = 0;
  std::string out;
  bool no_frames = false;
};

std::size_t NotMet(const Played& played, const std::vector<Judged>& judged) {
  std::size_t count = 0;
  for (const Judged& one : judged) count += one.met ? 0 : 1;
  for (const sim::RunRecord& run : played.runs) count += run.violations.size();
  return count;
}

void PrintViolations(const Played& played) {
  for (const sim::RunRecord& run : played.runs)
    for (const std::string& violation : run.violations) fmt::print("violation in {}: {}\n", run.label, violation);
}

std::string WorldText(const sim::Scenario& scenario) {
  if (scenario.migration) return fmt::format("{} nodes", scenario.migration->nodes.size());
  if (scenario.cluster)
    return fmt::format("{} kernels, {} devices", scenario.cluster->kernels.size(), scenario.cluster->devices.count);
  return fmt::format("{} tenants, {} devices", scenario.tenants.size(), scenario.devices.size());
}

Result<int> RunOne(const Session& session, const SimFlags& flags) {
  WEIR_TRY(sim::Scenario scenario, LoadScenario(flags.scenario));
  const std::string name = scenario.name;
  const auto seed = flags.seed != 0 ? static_cast<std::uint64_t>(flags.seed) : scenario.seed;
  if (!session.json)
    fmt::print("{}: {} ({})\nseed {}, {:g} s of virtual time, {}, {} runs\n\n", name, scenario.title, scenario.source,
               seed, SecondsOf(scenario.span), WorldText(scenario), scenario.runs.size());
  const Played played = Play(std::move(scenario), {.seed = seed, .keep_frames = true, .progress = ProgressBar(name)});
  const std::vector<Judged> judged = JudgeAll(played);
  if (!flags.out.empty()) WEIR_TRY_STATUS(WriteResults(flags.out, played, judged, !flags.no_frames));
  if (session.json) {
    fmt::print("{}\n", PlayedJson(played, judged).dump(2));
  } else {
    const bool color = StdoutTakesColor();
    fmt::print("{}", RunTable(played, color));
    if (!judged.empty()) fmt::print("\n{}", ExpectationTable(judged, color));
    PrintViolations(played);
    fmt::print("\n{:.1f} s of virtual time in {:.2f} s, {:.2f} million events/s\n", played.SimulatedSeconds(),
               played.wall_s, static_cast<double>(played.Events()) * 1e-6 / played.wall_s);
    for (const sim::RunRecord& run : played.runs) fmt::print("digest {:016x}  {}\n", run.digest, run.label);
    if (!flags.out.empty())
      fmt::print("written: {}/report.html, result.json, {} for each run\n", flags.out,
                 flags.no_frames ? "a CSV" : "two CSVs");
  }
  const std::size_t bad = NotMet(played, judged);
  if (bad == 0) return 0;
  Say(fmt::format("{}: {} not met, or violated", name,
                  bad == 1 ? "1 expectation" : fmt::format("{} expectations", bad)));
  return kNotMet;
}

Result<int> PrintScenarios(const Session& session) {
  WEIR_TRY(const std::vector<std::string> names, ListScenarios());
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  Table table({{"SCENARIO"}, {"SOURCE"}, {"WHAT"}});
  for (const std::string& name : names) {
    const auto scenario = LoadScenario(name);
    const std::string title = scenario ? scenario->title : scenario.error().message;
    table.Add({{name, Style::kStrong}, {scenario ? scenario->source : ""}, {title}});
    all.push_back({{"name", name}, {"title", title}});
  }
  if (session.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"scenarios", all}}.dump(2));
  else
    fmt::print("{}", table.Render(StdoutTakesColor()));
  return 0;
}

/// Runs all scenarios, or the given ones, and prints a line for each.
Result<int> Check(const Session& session, const SimFlags& flags) {
  std::vector<std::string> names = flags.scenarios;
  if (names.empty()) {
    WEIR_TRY(names, ListScenarios());
  }
  std::size_t failed = 0;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& name : names) {
    WEIR_TRY(sim::Scenario scenario, LoadScenario(name));
    const auto seed = static_cast<std::uint64_t>(flags.seed);
    const Played played = Play(std::move(scenario), {.seed = seed, .keep_frames = true, .progress = ProgressBar(name)});
    const std::vector<Judged> judged = JudgeAll(played);
    const std::size_t bad = NotMet(played, judged);
    failed += bad > 0 ? 1 : 0;
    if (session.json) {
      all.push_back(PlayedJson(played, judged));
      continue;
    }
    fmt::print("{}  {:<24} {} of {} expectations met, {:.2f} s\n",
               Styled(bad == 0 ? "ok    " : "FAILED", bad == 0 ? Style::kGood : Style::kBad, StdoutTakesColor()), name,
               judged.size() - std::min(bad, judged.size()), judged.size(), played.wall_s);
    for (const Judged& one : judged)
      if (!one.met)
        fmt::print("          {}: {} (expected {}; paper: {})\n", WhatText(*one.expectation),
                   one.fault.empty() ? fmt::format("{:.4g}", one.value) : one.fault, RangeText(*one.expectation),
                   one.expectation->paper.empty() ? "-" : one.expectation->paper);
    PrintViolations(played);
  }
  if (session.json) fmt::print("{}\n", nlohmann::ordered_json{{"checked", all}}.dump(2));
  if (failed == 0) return 0;
  Say(fmt::format("{} of {} scenarios failed", failed, names.size()));
  return kNotMet;
}

}  // namespace

void AddSim(Command app, Session& session) {
  const Command sim =
      AddCommandGroup(app, "sim", "Try policies on modelled devices and programs, with the daemon's own engine",
                      "  weir sim list\n  weir sim run vgris-fig7\n  weir sim check\n  weir sim swarm\n");
  auto flags = std::make_shared<SimFlags>();
  const Command run = AddCommand(sim, "run", "Play a scenario",
                                 "  weir sim run vgris-fig7\n  weir sim run my.toml --seed 7 --out results\n", session);
  run.Add("scenario", "SCENARIO", flags->scenario, "A file, or a name that `weir sim list` shows").Required();
  run.Add("--out", "DIR", flags->out, "Folder for report.html, result.json and two CSVs per run: by frame, by second");
  run.AddFlag("--no-frames", flags->no_frames, "With --out: no CSV by frame, which may be large");
  run.WhenGiven([flags, &session] { session.action = [flags, &session] { return RunOne(session, *flags); }; });
  const Command list = AddCommand(sim, "list", "List the scenarios", "  weir sim list\n", session);
  list.WhenGiven([&session] { session.action = [&session] { return PrintScenarios(session); }; });
  const Command check = AddCommand(sim, "check", "Play scenarios and check their expectations",
                                   "  weir sim check\n  weir sim check vgris-fig7 my.toml --seed 3\n", session);
  check.Add("scenarios", "SCENARIO", flags->scenarios, "Which (default: all)");
  check.WhenGiven([flags, &session] { session.action = [flags, &session] { return Check(session, *flags); }; });
  AddSimReplay(sim, session);
  auto swarm_flags = std::make_shared<SwarmFlags>();
  const Command swarm = AddCommand(sim, "swarm", "Play random scenarios with faults, and check that promises hold",
                                   "  weir sim swarm\n  weir sim swarm --seeds 1000 --from 500\n"
                                   "  weir sim swarm --seed 17\n",
                                   session);
  swarm.AddWhole("--seeds", "N", swarm_flags->seeds, 1, kSeedsMax, "How many (default: 100)");
  swarm.AddWhole("--from", "SEED", swarm_flags->from, 1, kSeedMax, "The first (default: 1)");
  swarm.AddWhole("--seed", "SEED", swarm_flags->seed, 1, kSeedMax, "Only this one, showing everything that was drawn");
  swarm.WhenGiven(
      [swarm_flags, &session] { session.action = [swarm_flags, &session] { return Swarm(session, *swarm_flags); }; });
  for (const Command& command : {run, check})
    command.AddWhole("--seed", "N", flags->seed, "Instead of the scenario's own");
}

}  // namespace weir::cli
