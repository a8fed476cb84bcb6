// SPDX-License-Identifier: Apache-2.0
// Frames from the control API. Columns are found by name, because later daemons may add columns or change their order.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/result.h"

namespace weir::cli {

/// Times are CLOCK_MONOTONIC.
struct FrameRow {
  std::int64_t pid = 0;
  std::int64_t surface = 0;     // a small number, unique in the process
  std::int64_t begin_ns = 0;    // return of the previous present; for a surface's first frame: its call
  std::int64_t present_ns = 0;  // the program called present
  std::int64_t submit_ns = 0;   // the driver's present was called, after synchronising, pacing and the gate
  std::int64_t end_ns = 0;      // the driver's present returned
  std::int64_t gpu_ns = 0;      // in the device's unit
  std::int64_t sync_ns = 0, pace_ns = 0, wait_ns = 0;
  std::int64_t predicted_ns = 0;    // of end - submit; 0: no prediction
  std::int64_t interval_ns = 0;     // frame interval in force; 0: none
  std::int64_t start_delay_ns = 0;  // of present - begin: delayed before the program began the frame
};

/// A reply of GET /v1/vgpus/{name}/frames.
struct FrameRows {
  std::int64_t next = 0;  // number of the next frame to request
  std::int64_t lost = 0;
  std::vector<FrameRow> rows;
};

/// kProtocol: a row can't be read, or its times are not in order. A missing column reads as 0, except pid, begin_ns,
/// present_ns and end_ns, which are required.
Result<FrameRows> FrameRowsFromJson(const nlohmann::json& reply);

}  // namespace weir::cli
