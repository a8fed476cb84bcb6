// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/play.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <span>

#include "cli/common/table.h"
#include "cli/common/text_units.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "sim/checkers.h"

namespace weir::cli {
namespace {

constexpr int kProgressSteps = 50;  // progress is reported this often in each run

double MeanFps(const sim::RunRecord& run, const sim::TenantRecord& tenant) {
  sim::Expectation whole{.metric = "fps", .run = run.label, .tenant = tenant.name};
  const auto value = sim::Measure(std::span(&run, 1), whole);
  return value ? *value : 0;
}

double Figure(const sim::RunRecord& run, const sim::TenantRecord& tenant, const char* metric, double parameter = 0) {
  sim::Expectation e{.metric = metric, .run = run.label, .tenant = tenant.name, .parameter = parameter};
  const auto value = sim::Measure(std::span(&run, 1), e);
  return value ? *value : std::nan("");
}

std::string Short(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

}  // namespace

std::function<void(double)> ProgressBar(const std::string& name) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [name](double part) {
    constexpr int kColumns = 30;
    fmt::print(stderr, "\r{:<24} {:<{}} {:3.0f} % ", name, std::string(static_cast<std::size_t>(part * kColumns), '='),
               kColumns, part * 100);
    if (part >= 1) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

double Played::SimulatedSeconds() const {
  double sum = 0;
  for (const sim::RunRecord& run : runs) sum += static_cast<double>(run.span_ns) * 1e-9;
  return sum;
}
std::uint64_t Played::Events() const {
  std::uint64_t sum = 0;
  for (const sim::RunRecord& run : runs) sum += run.events;
  return sum;
}

Played Play(sim::Scenario scenario, const PlayOptions& options) {
  Played played{.scenario = std::move(scenario)};
  played.seed = options.seed != 0 ? options.seed : played.scenario.seed;
  const Instant began = platform::Now();
  const auto runs = static_cast<double>(played.scenario.runs.size());
  for (const sim::Run& run : played.scenario.runs) {
    if (played.scenario.migration) {
      sim::MigrationSimulation simulation(played.scenario, run, played.seed);
      simulation.RunUntil(played.scenario.span);
      played.runs.push_back(simulation.Take());
      if (options.progress) options.progress(static_cast<double>(played.runs.size()) / runs);
      continue;
    }
    if (played.scenario.cluster) {
      sim::ClusterSimulation simulation(played.scenario, run, played.seed, options.keep_frames);
      simulation.RunUntil(played.scenario.span);
      played.runs.push_back(simulation.Take());
      if (options.progress) options.progress(static_cast<double>(played.runs.size()) / runs);
      continue;
    }
    sim::Simulation simulation(
        played.scenario, run,
        {.seed = played.seed, .keep_frames = options.keep_frames, .check = true, .tamper = options.tamper});
    for (int slice = 1; slice <= kProgressSteps; ++slice) {
      simulation.RunUntil(played.scenario.span * slice / kProgressSteps);
      const auto before = static_cast<double>(played.runs.size());
      if (options.progress) options.progress((before + static_cast<double>(slice) / kProgressSteps) / runs);
    }
    played.runs.push_back(simulation.Take());
    sim::RunRecord& record = played.runs.back();
    std::ranges::move(sim::CheckMemory(played.scenario, run, record), std::back_inserter(record.violations));
  }
  played.wall_s = SecondsOf(platform::Now() - began);
  return played;
}

std::vector<Judged> JudgeAll(const Played& played) {
  std::vector<Judged> all;
  for (const sim::Expectation& expectation : played.scenario.expectations) {
    Judged judged{.expectation = &expectation};
    const auto verdict = sim::Judge(played.runs, expectation);
    if (verdict) {
      judged.value = verdict->value;
      judged.met = verdict->met;
    } else {
      judged.fault = verdict.error().message;
    }
    all.push_back(std::move(judged));
  }
  return all;
}

std::string WhatText(const sim::Expectation& e) {
  std::string text = e.metric;
  if (e.parameter != 0) text += fmt::format(" {:g}", e.parameter);
  if (!e.tenant.empty()) text += fmt::format(" of {}", e.tenant);
  if (!e.parts.empty()) text += fmt::format(" of {} parts", e.parts.size());
  if (!e.per_tenant.empty()) text += fmt::format(" / {}", e.per_tenant);
  if (!e.run.empty()) text += fmt::format(", {}", e.run);
  if (!e.per_run.empty()) text += fmt::format(" / {}", e.per_run);
  if (e.from_s != 0 || e.to_s != 0)
    text += e.to_s == 0 ? fmt::format(", from {:g} s", e.from_s) : fmt::format(", {:g} … {:g} s", e.from_s, e.to_s);
  return text;
}

std::string RangeText(const sim::Expectation& e) {
  if (e.min && e.max) return fmt::format("{:g} … {:g}", *e.min, *e.max);
  return e.min ? fmt::format("≥ {:g}", *e.min) : fmt::format("≤ {:g}", e.max.value_or(0));
}

std::string RunTable(const Played& played, bool color) {
  if (played.scenario.migration) return TaskTable(played, color);
  if (played.scenario.cluster) return KernelTable(played, color);
  constexpr auto kRight = Table::Align::kRight;
  constexpr std::size_t kRowsMax = 24;  // rows of tenants for one run
  Table table({{"RUN"},
               {"TENANT"},
               {"FPS", kRight},
               {"P50 ms", kRight},
               {"P99 ms", kRight},
               {"MAX ms", kRight},
               {"GPU USE", kRight},
               {"SHARE", kRight}});
  for (const sim::RunRecord& run : played.runs) {
    if (&run != &played.runs.front()) table.AddGap();
    std::size_t rows = 0;
    for (const sim::TenantRecord& tenant : run.tenants) {
      if (rows++ >= kRowsMax) break;
      table.Add({{rows == 1 ? run.label : "", Style::kStrong},
                 {tenant.name},
                 {fmt::format("{:.2f}", MeanFps(run, tenant))},
                 {Short(Figure(run, tenant, "percentile_ms", 0.5))},
                 {Short(Figure(run, tenant, "percentile_ms", 0.99))},
                 {Short(Figure(run, tenant, "max_ms"))},
                 {FormatPercent(Figure(run, tenant, "gpu_use"))},
                 {FormatPercent(Figure(run, tenant, "gpu_share"))}});
    }
    if (run.tenants.size() > kRowsMax)
      table.Add({{""},
                 {fmt::format("and {} more", run.tenants.size() - kRowsMax), Style::kFaint},
                 {""},
                 {""},
                 {""},
                 {""},
                 {""},
                 {""}});
  }
  return table.Render(color);
}

std::string ExpectationTable(const std::vector<Judged>& judged, bool color) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{""}, {"EXPECTED"}, {"PAPER", kRight}, {"OURS", kRight}, {"RANGE", kRight}});
  for (const Judged& one : judged)
    table.Add({{one.met ? "ok" : "NOT MET", one.met ? Style::kGood : Style::kBad},
               {WhatText(*one.expectation)},
               {one.expectation->paper.empty() ? "-" : one.expectation->paper},
               {one.fault.empty() ? Short(one.value) : one.fault},
               {RangeText(*one.expectation)}});
  return table.Render(color);
}

nlohmann::ordered_json PlayedJson(const Played& played, const std::vector<Judged>& judged) {
  using nlohmann::ordered_json;
  ordered_json out{{"scenario", played.scenario.name},
                   {"title", played.scenario.title},
                   {"source", played.scenario.source},
                   {"about", played.scenario.about},
                   {"seed", played.seed},
                   {"runs", ordered_json::array()}};
  for (const sim::RunRecord& run : played.runs) {
    ordered_json one{{"label", run.label},
                     {"events", run.events},
                     {"actions", run.actions},
                     {"looks", run.looks},
                     {"digest", fmt::format("{:016x}", run.digest)},
                     {"violations", run.violations}};
    one["tenants"] = ordered_json::array();
    for (const sim::TenantRecord& tenant : run.tenants)
      one["tenants"].push_back({{"name", tenant.name},
                                {"frames", tenant.frame_count},
                                {"fps", MeanFps(run, tenant)},
                                {"gpu_ns", tenant.gpu_ns}});
    out["runs"].push_back(std::move(one));
  }
  out["expectations"] = ordered_json::array();
  for (const Judged& one : judged) {
    ordered_json e{{"what", WhatText(*one.expectation)},
                   {"range", RangeText(*one.expectation)},
                   {"paper", one.expectation->paper},
                   {"note", one.expectation->note},
                   {"met", one.met}};
    if (one.expectation->min) e["min"] = *one.expectation->min;
    if (one.expectation->max) e["max"] = *one.expectation->max;
    if (one.fault.empty())
      e["value"] = one.value;
    else
      e["fault"] = one.fault;
    out["expectations"].push_back(std::move(e));
  }
  return out;
}

std::string FramesCsv(const sim::RunRecord& run) {
  std::string out = "tenant,end_s,latency_ms,gpu_ms,pace_ms,wait_ms,present_ms,predicted_ms,paced\n";
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  for (const sim::TenantRecord& tenant : run.tenants)
    for (const sim::FrameRecord& f : tenant.frames)
      out += fmt::format("{},{:.6f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{}\n", tenant.name,
                         static_cast<double>(f.end_ns) * 1e-9, ms(f.latency_ns), ms(f.gpu_ns), ms(f.pace_ns),
                         ms(f.wait_ns), ms(f.took_ns), ms(f.predicted_ns), f.paced ? 1 : 0);
  return out;
}

std::string SecondsCsv(const sim::RunRecord& run) {
  std::string out = "tenant,second,frames,gpu_ms\n";
  const auto seconds = static_cast<std::size_t>((run.span_ns + 999'999'999) / 1'000'000'000);
  for (const sim::TenantRecord& tenant : run.tenants) {
    std::vector<std::uint64_t> frames(seconds);
    for (const sim::FrameRecord& f : tenant.frames)
      if (const auto s = static_cast<std::size_t>(f.end_ns / 1'000'000'000); s < seconds) ++frames[s];
    for (std::size_t s = 0; s < seconds; ++s)
      out += fmt::format("{},{},{},{:.4f}\n", tenant.name, s, frames[s],
                         s < tenant.gpu_ns_by_s.size() ? static_cast<double>(tenant.gpu_ns_by_s[s]) * 1e-6 : 0.0);
  }
  return out;
}

Status WriteResults(const std::string& folder, const Played& played, const std::vector<Judged>& judged,
                    bool each_frame) {
  WEIR_TRY_STATUS(platform::MakeFolder(folder));
  for (const sim::RunRecord& run : played.runs) {
    if (each_frame) WEIR_TRY_STATUS(platform::WriteFileAtomically(folder + "/" + run.label + ".csv", FramesCsv(run)));
    WEIR_TRY_STATUS(platform::WriteFileAtomically(folder + "/" + run.label + "-seconds.csv", SecondsCsv(run)));
  }
  WEIR_TRY_STATUS(platform::WriteFileAtomically(folder + "/result.json", PlayedJson(played, judged).dump(2) + "\n"));
  return platform::WriteFileAtomically(folder + "/report.html", ScenarioPage(played, judged));
}

}  // namespace weir::cli
