// SPDX-License-Identifier: Apache-2.0
// Plays a scenario's runs, and says what came of them.
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

/// One scenario, played.
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
  /// Called now and then with the part that is done, 0 … 1.
  std::function<void(double)> progress{};
  sim::Tamper tamper{};  // for tests: a policy that is broken on purpose
};
/// On stderr, on a terminal only; else none.
std::function<void(double)> ProgressBar(const std::string& name);
Played Play(sim::Scenario scenario, const PlayOptions& options);

/// An expectation and what came of it.
struct Judged {
  const sim::Expectation* expectation = nullptr;
  double value = 0;
  bool met = false;
  std::string fault{};  // why it could not be reckoned
};
std::vector<Judged> JudgeAll(const Played& played);
/// "fps of gt2, sla-aware / none, 20 … 60 s".
std::string WhatText(const sim::Expectation& expectation);
/// "≥ 0.65", "0.9 … 1.1".
std::string RangeText(const sim::Expectation& expectation);

std::string RunTable(const Played& played, bool color);
/// The same of a migration scenario: task_table.cc.
std::string TaskTable(const Played& played, bool color);
/// And of a cluster scenario: kernel_table.cc.
std::string KernelTable(const Played& played, bool color);
std::string ExpectationTable(const std::vector<Judged>& judged, bool color);
nlohmann::ordered_json PlayedJson(const Played& played, const std::vector<Judged>& judged);
/// One row a frame.
std::string FramesCsv(const sim::RunRecord& run);
/// One row a tenant and second: for plots over time.
std::string SecondsCsv(const sim::RunRecord& run);
/// A page that is one file.
std::string ScenarioPage(const Played& played, const std::vector<Judged>& judged);
/// report.html, result.json and two CSVs a run, or one without `each_frame`. Frames must have been kept.
Status WriteResults(const std::string& folder, const Played& played, const std::vector<Judged>& judged,
                    bool each_frame = true);

}  // namespace weir::cli
