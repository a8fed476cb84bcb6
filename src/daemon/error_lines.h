// SPDX-License-Identifier: Apache-2.0
// Turns what a tenant's code writes to its standard error into lines of the daemon's log: printable, of bounded length,
// and not more than the log bears. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace weir::daemon {

class ErrorLines {
 public:
  static constexpr std::size_t kLineBytesMax = 512;           // the rest of a longer line is dropped
  static constexpr std::size_t kLinesAtOnce = 20;             // then …
  static constexpr Duration kLineEvery = milliseconds(1000);  // … one for each of these

  /// The lines that are complete with `bytes`. The first one after lines were dropped says how many.
  std::vector<std::string> Add(std::string_view bytes, Instant now);
  /// What remains when the writer has ended.
  std::vector<std::string> End(Instant now);

 private:
  void Complete(Instant now, std::vector<std::string>& lines);

  std::string line_;  // the incomplete one
  std::size_t dropped_ = 0;
  Instant full_at_{};  // when kLinesAtOnce lines may come again
};

}  // namespace weir::daemon
