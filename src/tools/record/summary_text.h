// SPDX-License-Identifier: Apache-2.0
// The end of a recording, for people and for scripts.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/common/views.h"
#include "core/stats/frame_summary.h"

namespace weir::cli {

struct RecordedProcess {
  ProcessView process;
  std::uint64_t frames = 0;
};

struct RecordingSummary {
  VgpuView vgpu;
  std::string ended_by;  // "time", "signal", "program", "vgpu", "limit" or "error"
  Duration recorded{};
  core::FrameSummary figures;
  std::uint64_t lost = 0;      // frames that the daemon no longer had, or that a program could not report
  std::uint64_t surfaces = 0;  // of all processes
  std::vector<RecordedProcess> processes;
  std::vector<std::string> files;
};

std::string SummaryText(const RecordingSummary& summary);
nlohmann::ordered_json SummaryJson(const RecordingSummary& summary);

}  // namespace weir::cli
