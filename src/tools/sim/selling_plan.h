// SPDX-License-Identifier: Apache-2.0
// What each way of selling a device would earn: customers that run recorded programs. Pure; `weir plan`.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/common/text_units.h"
#include "sim/record.h"
#include "sim/scenario.h"
#include "tools/sim/replay.h"

namespace weir::cli {

/// "1.5,2,3": each once, within the range of static's `ratio`.
Result<std::vector<double>> ParseRatios(std::string_view text);

/// Parameters of selling as they are typed. kInvalidArgument for a choice, for there is none that has any.
Result<core::PolicyParams> OversellParamsOf(std::span<const NamedValue> typed);

/// A trace, fitted.
struct FittedTrace {
  std::shared_ptr<const Replay> replay;
  std::size_t index = 0;  // in the replay
  Recorded recorded;
  Recorded real, model;  // its second half, and what the model says of that
  double promised_fps = 0;
};

/// Traces that were recorded together are fitted together, since they slowed each other; the others alone. All are of
/// one device: what a frame costs one device says nothing of another.
Result<std::vector<FittedTrace>> FitTraces(const std::vector<proto::Trace>& traces);

struct SellingPlan {
  double cap = 0.5;
  std::optional<double> fps{};  // instead of the traces' own; 0: the cap itself is promised
  int customers = 16;
  Duration span = seconds(300);
  std::uint64_t seed = 1;
  std::vector<double> ratios{1.5, 2, 3, 4};
  core::PolicyParams params{};  // of selling, checked
};

/// What each frame of the trace's programs needs of the device, for the rate that is promised.
double NeedOf(const FittedTrace& trace, const SellingPlan& plan);

/// A run for each way of selling. Customers run the traces in turn, each from another point of its trace on.
/// kInvalidArgument where a trace says no rate and the plan doesn't either.
Result<sim::Scenario> ScenarioOf(const std::vector<FittedTrace>& traces, const SellingPlan& plan);

/// A way of selling, and what it would earn. NaN where it can't be reckoned.
struct WayOfSelling {
  core::OversellMode mode = core::OversellMode::kStrict;
  double ratio = 0;  // of static
  double sold = 0, sold_ratio = 0, device_use = 0, broken = 0;
  double revenue = 0, penalty = 0, net = 0;  // per hour
};
/// "strict", "static 1.5", "adaptive".
std::string NameOf(const WayOfSelling& way);

/// Of the runs of such a scenario.
std::vector<WayOfSelling> WaysOf(const sim::Scenario& scenario, const std::vector<sim::RunRecord>& runs);

/// The one that earns most; where some earn the same, that which breaks less, then the first. There must be one.
const WayOfSelling& BestOf(std::span<const WayOfSelling> ways);

/// Which is the best, and why, in a sentence.
std::string VerdictText(std::span<const WayOfSelling> ways);

}  // namespace weir::cli
