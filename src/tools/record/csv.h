// SPDX-License-Identifier: Apache-2.0
// Frames as comma-separated values with the column names of PresentMon 2, so that viewers of its files can read them.
// Values that cannot be measured within the program (when a frame was displayed, which input it answers) are NA.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "cli/common/frame_rows.h"
#include "cli/common/views.h"

namespace weir::cli {

/// The names of the columns, with a line end.
std::string CsvHeader();

class CsvRows {
 public:
  /// `start_ns`: the origin of CPUStartTime. `target_ms`: the promised latency, or the interval of the promised rate;
  /// 0: none.
  CsvRows(std::int64_t start_ns, double target_ms) : start_ns_(start_ns), target_ms_(target_ms) {}

  /// Rows of a surface must come in order. `process`: the presenting process, as far as it is known.
  std::string Row(const FrameRow& row, const ProcessView& process);

 private:
  struct Last {
    std::int64_t present_ns = 0, end_ns = 0;
  };
  std::int64_t start_ns_;
  double target_ms_;
  std::map<std::pair<std::int64_t, std::int64_t>, Last> last_;  // by pid and surface
};

}  // namespace weir::cli
