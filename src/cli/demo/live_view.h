// SPDX-License-Identifier: Apache-2.0
// What is shown while a phase runs: a table that is redrawn in place on a terminal, a line now and then elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/top_view.h"

namespace weir::cli {

enum class Part : std::uint8_t { kWarmUp, kMeasuring, kFinishing };

class LiveView {
 public:
  explicit LiveView(std::FILE* out);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void Show(const Snapshot& snapshot, const std::string& policy, Part part, Duration elapsed, Duration span);
  /// Leaves the last picture where it is; the next phase's comes below it.
  void FinishPhase();

 private:
  static constexpr Duration kLineEvery = seconds(5);

  std::FILE* out_;
  bool in_place_;
  bool color_;
  TopHistory history_;
  std::size_t lines_ = 0;  // of the last picture
  Duration next_line_{0};  // elsewhere than on a terminal
};

}  // namespace weir::cli
