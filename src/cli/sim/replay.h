// SPDX-License-Identifier: Apache-2.0
// Traces as tenants: what was recorded is asked for again, under another policy. Pure; docs/replay.md.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "proto/trace.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::cli {

/// What a trace says of its vGPU.
struct Recorded {
  std::string vgpu;
  double fps = 0;    // frames of all its windows over the time that they span
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
  [[nodiscard]] const core::PolicyParams& params() const { return params_; }
  [[nodiscard]] Duration span() const { return Duration{to_ns_ - from_ns_}; }

  /// Fits one factor a tenant, of its own time on the CPU, so that the model shows what the first half of the record
  /// shows. Then the second half tells how far the model is off.
  void Calibrate();
  /// The recorded demand under a policy, for as long as the record is.
  [[nodiscard]] std::vector<Recorded> Play(const std::string& policy, const core::PolicyParams& params) const;
  /// What the second half of the record shows, and what the model says of it.
  [[nodiscard]] std::vector<Recorded> SecondHalf() const { return Count(Middle(), to_ns_); }
  [[nodiscard]] std::vector<Recorded> PlaySecondHalf() const;

  /// The programs of trace `i`, as fitted: all frames of its record from `part` (0 … 1) of it on, and round again.
  [[nodiscard]] sim::Tenant ProgramsFrom(std::size_t i, double part) const;

 private:
  [[nodiscard]] std::int64_t Middle() const { return from_ns_ + (to_ns_ - from_ns_) / 2; }
  [[nodiscard]] std::vector<Recorded> Count(std::int64_t from_ns, std::int64_t to_ns) const;
  [[nodiscard]] std::vector<Recorded> PlayPart(std::int64_t from_ns, std::int64_t to_ns, const std::string& policy,
                                               const core::PolicyParams& params) const;
  [[nodiscard]] sim::Scenario ScenarioOf(std::int64_t from_ns, std::int64_t to_ns) const;
  /// Of the frames from `from_ns` to `to_ns` those from `start_ns` on, then the others. No loop where there are none.
  [[nodiscard]] sim::Tenant TenantOf(std::size_t i, std::int64_t from_ns, std::int64_t to_ns,
                                     std::int64_t start_ns) const;

  std::vector<proto::Trace> traces_;
  std::vector<Recorded> recorded_;
  std::vector<double> factors_;  // of each tenant's CPU time
  std::string policy_;
  core::PolicyParams params_;
  std::int64_t from_ns_ = 0, to_ns_ = 0;
};

}  // namespace weir::cli
