// SPDX-License-Identifier: Apache-2.0
// Collects the frames and totals of a phase from the daemon in small steps.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/common/control_client.h"
#include "cli/common/top_view.h"
#include "tools/demo/plan.h"

namespace weir::cli {

class Recorder {
 public:
  Recorder(ControlClient client, const std::vector<Workload>& workloads) : client_(std::move(client)) {
    for (const Workload& workload : workloads) programs_.push_back({workload.name, 0, {}});
  }

  /// Reads new frames and totals; the vGPUs are in the order of the workloads. Frames are kept only between Begin and
  /// Take.
  Result<Snapshot> Poll();
  Status Begin(const std::string& policy);
  /// Ends the phase. Frames in progress are reported later, so continue to poll for a moment.
  Status End();
  Phase Take();

 private:
  struct Program {
    std::string name;
    std::int64_t next = 0;  // number of the next frame to request
    Tally at_begin;
  };
  Result<std::vector<Tally>> Tallies(const Snapshot& snapshot) const;

  ControlClient client_;
  std::vector<Program> programs_;
  Phase phase_;
  bool recording_ = false;
};

}  // namespace weir::cli
