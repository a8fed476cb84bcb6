// SPDX-License-Identifier: Apache-2.0
// The frames that the control API hands out. Its columns are looked up by name: later daemons may have more of them,
// and in another order.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/result.h"

namespace weir::cli {

/// Times are CLOCK_MONOTONIC.
struct FrameRow {
  std::int64_t pid = 0;
  std::int64_t surface = 0;     // small number, per process
  std::int64_t begin_ns = 0;    // return of the previous present; of a surface's first: its call
  std::int64_t present_ns = 0;  // the program called present
  std::int64_t submit_ns = 0;   // the driver's present was called: sync, pacing and the gate lie before it
  std::int64_t end_ns = 0;      // it returned
  std::int64_t gpu_ns = 0;      // in the device's unit
  std::int64_t sync_ns = 0, pace_ns = 0, wait_ns = 0;
  std::int64_t predicted_ns = 0;  // of end - submit; 0: nothing was predicted
  std::int64_t interval_ns = 0;   // the pace in force; 0: none
};

/// A reply of GET /v1/vgpus/{name}/frames.
struct FrameRows {
  std::int64_t next = 0;  // the frame to ask for
  std::int64_t lost = 0;
  std::vector<FrameRow> rows;
};

/// kProtocol for rows that can't be read, or whose times are not in order. A column that is missing reads as 0, but
/// pid, begin_ns, present_ns and end_ns are insisted on.
Result<FrameRows> FrameRowsFromJson(const nlohmann::json& reply);

}  // namespace weir::cli
