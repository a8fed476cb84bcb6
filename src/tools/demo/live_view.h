// SPDX-License-Identifier: Apache-2.0
// The view while a phase runs: a table that is redrawn on a terminal, or a line at intervals otherwise.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/common/top_view.h"

namespace weir::cli {

enum class Part : std::uint8_t { kWarmUp, kMeasuring, kFinishing };

class LiveView {
 public:
  explicit LiveView(std::FILE* out);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void Show(const Snapshot& snapshot, const std::string& policy, Part part, Duration elapsed, Duration span);
  /// Leaves the last table on the screen; the next phase's table is drawn below.
  void FinishPhase();

 private:
  static constexpr Duration kLineEvery = seconds(5);

  std::FILE* out_;
  bool in_place_;
  bool color_;
  TopHistory history_;
  std::size_t lines_ = 0;  // lines of the last table
  Duration next_line_{0};  // when stdout is not a terminal
};

}  // namespace weir::cli
