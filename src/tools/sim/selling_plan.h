// SPDX-License-Identifier: Apache-2.0
// Computes what each way of selling a device would earn, with customers that run recorded programs. Pure. Used by
// `weir plan`.
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

/// Parses "1.5,2,3". Each ratio occurs once and is within the range of static overselling's `ratio`.
Result<std::vector<double>> ParseRatios(std::string_view text);

/// Parameters of overselling from the command line. kInvalidArgument: a value is not a number; no parameter has
/// choices.
Result<core::PolicyParams> OversellParamsOf(std::span<const NamedValue> typed);

/// A trace whose replay was fitted.
struct FittedTrace {
  std::shared_ptr<const Replay> replay;
  std::size_t index = 0;  // in the replay
  Recorded recorded;
  Recorded real, model;  // the figures of its second half, and the model's figures for it
  double promised_fps = 0;
};

/// Fits the traces. Traces that were recorded together are fitted together, because they slowed each other. All traces
/// must be of one device, because a frame's cost on one device does not determine its cost on another.
Result<std::vector<FittedTrace>> FitTraces(const std::vector<proto::Trace>& traces);

struct SellingPlan {
  double cap = 0.5;
  std::optional<double> fps{};  // promised rate instead of the traces' own; 0: the cap itself is promised
  int customers = 16;
  Duration span = seconds(300);
  std::uint64_t seed = 1;
  std::vector<double> ratios{1.5, 2, 3, 4};
  core::PolicyParams params{};  // parameters of overselling, already checked
};

/// The fraction of the device that the trace's programs need for the promised rate.
double NeedOf(const FittedTrace& trace, const SellingPlan& plan);

/// A scenario with a run for each way of selling. The customers run the traces in turn, each beginning at another point
/// of its trace. kInvalidArgument: neither a trace nor the plan states a rate.
Result<sim::Scenario> ScenarioOf(const std::vector<FittedTrace>& traces, const SellingPlan& plan);

/// A way of selling, and what it would earn. NaN: the figure cannot be computed.
struct WayOfSelling {
  core::OversellMode mode = core::OversellMode::kStrict;
  double ratio = 0;  // for static overselling
  double sold = 0, sold_ratio = 0, device_use = 0, broken = 0;
  double revenue = 0, penalty = 0, net = 0;  // per hour
};
/// The name of a way of selling: "strict", "static 1.5", "adaptive".
std::string NameOf(const WayOfSelling& way);

/// The ways of selling and their earnings, from the runs of such a scenario.
std::vector<WayOfSelling> WaysOf(const sim::Scenario& scenario, const std::vector<sim::RunRecord>& runs);

/// The way that earns most. Among equals, the one that breaks fewer promises, then the first one. `ways` is not empty.
const WayOfSelling& BestOf(std::span<const WayOfSelling> ways);

/// A sentence that names the best way and the reason.
std::string VerdictText(std::span<const WayOfSelling> ways);

}  // namespace weir::cli
