// SPDX-License-Identifier: Apache-2.0
// Plays a scenario's runs, and presents their results.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cluster_simulation.h"
#include "sim/metrics.h"
#include "sim/migration_simulation.h"
#include "sim/simulation.h"

namespace weir::cli {

/// A scenario that was played, with the records of its runs.
struct Played {
  sim::Scenario scenario;
  std::uint64_t seed = 0;
  std::vector<sim::RunRecord> runs{};
  double wall_s = 0;
  [[nodiscard]] double SimulatedSeconds() const;
  [[nodiscard]] std::uint64_t Events() const;
};

struct PlayOptions {
  std::uint64_t seed = 0;  // 0: the scenario's own
  bool keep_frames = true;
  /// Called at intervals with the completed fraction, 0 … 1.
  std::function<void(double)> progress{};
  sim::Tamper tamper{};  // for tests: a policy that is broken on purpose
};
/// A progress bar on stderr; empty if stderr is not a terminal.
std::function<void(double)> ProgressBar(const std::string& name);
Played Play(sim::Scenario scenario, const PlayOptions& options);

/// An expectation and its result.
struct Judged {
  const sim::Expectation* expectation = nullptr;
  double value = 0;
  bool met = false;
  std::string fault{};  // why the value could not be computed; empty: it was
};
std::vector<Judged> JudgeAll(const Played& played);
/// What the expectation is about: "fps of gt2, sla-aware / none, 20 … 60 s".
std::string WhatText(const sim::Expectation& expectation);
/// The expected range: "≥ 0.65", "0.9 … 1.1".
std::string RangeText(const sim::Expectation& expectation);

std::string RunTable(const Played& played, bool color);
/// The results of a migration scenario (task_table.cc).
std::string TaskTable(const Played& played, bool color);
/// The results of a cluster scenario (kernel_table.cc).
std::string KernelTable(const Played& played, bool color);
std::string ExpectationTable(const std::vector<Judged>& judged, bool color);
nlohmann::ordered_json PlayedJson(const Played& played, const std::vector<Judged>& judged);
/// One row for each frame.
std::string FramesCsv(const sim::RunRecord& run);
/// One row for each tenant and second, for plots over time.
std::string SecondsCsv(const sim::RunRecord& run);
/// The results as a self-contained HTML page.
std::string ScenarioPage(const Played& played, const std::vector<Judged>& judged);
/// Writes report.html, result.json and two CSV files for each run; without `each_frame`, one. Frames must have been
/// kept.
Status WriteResults(const std::string& folder, const Played& played, const std::vector<Judged>& judged,
                    bool each_frame = true);

}  // namespace weir::cli
