// SPDX-License-Identifier: Apache-2.0
// Replays traces as tenants of the simulator: the recorded demand under another policy. Pure. Page: docs/replay.md
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/device/device_config.h"
#include "proto/trace.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::cli {

/// The figures of one vGPU, from its trace or from the model.
struct Recorded {
  std::string vgpu;
  double fps = 0;    // frames of all windows a second; a frame that is partly in the counted time counts in part
  double share = 0;  // fraction of the GPU time of all traces in their common time
  double use = 0;    // fraction of the device
};

/// The relative error of the model's rate: "+1.2 %".
std::string OffText(double model, double record);

/// A replay of traces that were recorded at the same time on one device.
class Replay {
 public:
  /// kInvalidArgument: the traces are of different devices, have too little time in common, or have no frames.
  static Result<Replay> Make(std::vector<proto::Trace> traces);

  [[nodiscard]] const std::vector<Recorded>& recorded() const { return recorded_; }
  [[nodiscard]] const std::string& policy() const { return policy_; }
  [[nodiscard]] const std::string& device() const { return traces_.front().header.device; }
  [[nodiscard]] const core::PolicyParams& params() const { return params_; }
  [[nodiscard]] Duration span() const { return Duration{to_ns_ - from_ns_}; }
  /// Whether the device was an emulated one, whose behaviour its description defines.
  [[nodiscard]] bool emulated() const { return traces_.front().header.device_kind == "emulated"; }

  /// Sets the model of the device on which the record is played. Without it, commands run in the order of submission.
  void PlayOn(const core::DeviceConfig& device) { device_ = device; }

  /// Fits one factor for each tenant, which scales its own time on the CPU, so that the model reproduces the rates of
  /// the first half of the record. The second half then shows the model's error.
  void Calibrate();
  /// By trace. A factor at a limit means that the fit has failed: the model cannot reproduce the record.
  [[nodiscard]] const std::vector<double>& factors() const { return factors_; }
  static constexpr double kFactorMin = 0.05, kFactorMax = 20;
  /// Plays the recorded demand under a policy, for the length of the record.
  [[nodiscard]] std::vector<Recorded> Play(const std::string& policy, const core::PolicyParams& params) const;
  /// The figures of the second half of the record, and the model's figures for it.
  [[nodiscard]] std::vector<Recorded> SecondHalf() const { return Count(Middle(), to_ns_); }
  [[nodiscard]] std::vector<Recorded> PlaySecondHalf() const;

  /// The programs of trace `i`, as fitted: all frames of its record, beginning at the fraction `part` (0 … 1) of the
  /// record and wrapping around at its end.
  [[nodiscard]] sim::Tenant ProgramsFrom(std::size_t i, double part) const;

 private:
  using LoopKey = std::pair<std::uint32_t, std::uint32_t>;  // process and surface
  [[nodiscard]] std::int64_t Middle() const { return from_ns_ + (to_ns_ - from_ns_) / 2; }
  [[nodiscard]] std::vector<Recorded> Count(std::int64_t from_ns, std::int64_t to_ns) const;
  [[nodiscard]] std::vector<Recorded> PlayPart(std::int64_t from_ns, std::int64_t to_ns, const std::string& policy,
                                               const core::PolicyParams& params) const;
  [[nodiscard]] sim::Scenario ScenarioOf(std::int64_t from_ns, std::int64_t to_ns) const;
  /// The tenant of trace `i`, without frames.
  [[nodiscard]] sim::Tenant TenantOf(std::size_t i) const;
  /// Adds the frames that begin in the span to their loops.
  void AddFrames(std::size_t i, std::int64_t from_ns, std::int64_t to_ns,
                 std::map<LoopKey, std::vector<sim::Demand>>& loops) const;

  std::vector<proto::Trace> traces_;
  std::vector<Recorded> recorded_;
  std::vector<std::vector<Duration>> costs_;  // of each trace's frames
  std::vector<std::map<LoopKey, std::uint64_t>> shortest_presents_ns_;
  std::vector<double> factors_;  // scale each tenant's CPU time
  core::DeviceConfig device_;
  std::string policy_;
  core::PolicyParams params_;
  std::int64_t from_ns_ = 0, to_ns_ = 0;
};

}  // namespace weir::cli
