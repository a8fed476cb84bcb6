// SPDX-License-Identifier: Apache-2.0
// Traces as tenants: what was recorded is asked for again, under another policy. Pure; docs/replay.md.
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

/// What a trace says of its vGPU.
struct Recorded {
  std::string vgpu;
  double fps = 0;    // frames of all its windows over the time; a frame that is cut by an end counts by its part
  double share = 0;  // of the GPU time that all traces show in the time that they have in common
  double use = 0;    // of the device
};

/// By how much a rate of the model is off: "+1.2 %".
std::string OffText(double model, double record);

/// Traces that were recorded at the same time on one device. kInvalidArgument: of other devices, or with no time in
/// common, or without frames.
class Replay {
 public:
  static Result<Replay> Make(std::vector<proto::Trace> traces);

  [[nodiscard]] const std::vector<Recorded>& recorded() const { return recorded_; }
  [[nodiscard]] const std::string& policy() const { return policy_; }
  [[nodiscard]] const std::string& device() const { return traces_.front().header.device; }
  [[nodiscard]] const core::PolicyParams& params() const { return params_; }
  [[nodiscard]] Duration span() const { return Duration{to_ns_ - from_ns_}; }
  /// Whether the device was an emulated one, whose description says how it works.
  [[nodiscard]] bool emulated() const { return traces_.front().header.device_kind == "emulated"; }

  /// The device that the record is played on. Without it, commands run in the order in which they come.
  void PlayOn(const core::DeviceConfig& device) { device_ = device; }

  /// Fits one factor a tenant, of its own time on the CPU, so that the model shows what the first half of the record
  /// shows. Then the second half tells how far the model is off.
  void Calibrate();
  /// By trace. One at a limit was not found: the model can't show the record.
  [[nodiscard]] const std::vector<double>& factors() const { return factors_; }
  static constexpr double kFactorMin = 0.05, kFactorMax = 20;
  /// The recorded demand under a policy, for as long as the record is.
  [[nodiscard]] std::vector<Recorded> Play(const std::string& policy, const core::PolicyParams& params) const;
  /// What the second half of the record shows, and what the model says of it.
  [[nodiscard]] std::vector<Recorded> SecondHalf() const { return Count(Middle(), to_ns_); }
  [[nodiscard]] std::vector<Recorded> PlaySecondHalf() const;

  /// The programs of trace `i`, as fitted: all frames of its record from `part` (0 … 1) of it on, and round again.
  [[nodiscard]] sim::Tenant ProgramsFrom(std::size_t i, double part) const;

 private:
  using LoopKey = std::pair<std::uint32_t, std::uint32_t>;  // process and surface
  [[nodiscard]] std::int64_t Middle() const { return from_ns_ + (to_ns_ - from_ns_) / 2; }
  [[nodiscard]] std::vector<Recorded> Count(std::int64_t from_ns, std::int64_t to_ns) const;
  [[nodiscard]] std::vector<Recorded> PlayPart(std::int64_t from_ns, std::int64_t to_ns, const std::string& policy,
                                               const core::PolicyParams& params) const;
  [[nodiscard]] sim::Scenario ScenarioOf(std::int64_t from_ns, std::int64_t to_ns) const;
  /// Without its programs' frames.
  [[nodiscard]] sim::Tenant TenantOf(std::size_t i) const;
  /// Those frames that begin in the span, for each loop that has some.
  void AddFrames(std::size_t i, std::int64_t from_ns, std::int64_t to_ns,
                 std::map<LoopKey, std::vector<sim::Demand>>& loops) const;

  std::vector<proto::Trace> traces_;
  std::vector<Recorded> recorded_;
  std::vector<std::vector<Duration>> costs_;  // of each trace's frames
  std::vector<std::map<LoopKey, std::uint64_t>> shortest_presents_ns_;
  std::vector<double> factors_;  // of each tenant's CPU time
  core::DeviceConfig device_;
  std::string policy_;
  core::PolicyParams params_;
  std::int64_t from_ns_ = 0, to_ns_ = 0;
};

}  // namespace weir::cli
