// SPDX-License-Identifier: Apache-2.0
// Lines of a log about connections that failed, which a stranger can cause as often as it likes. The first ten failures
// of a minute are logged. Others are only counted until it is over, and the next line has their number. Pure: time is
// an argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"

namespace weir::platform {

class FailureLines {
 public:
  static constexpr Duration kEvery = seconds(60);
  static constexpr int kLinesMax = 10;  // in that time, the line with the number among them

  /// The line to log for a connection that failed because of `why`; empty: none, the failure is counted.
  [[nodiscard]] std::string Failed(Instant now, std::string why) {
    if (counted_ == 0 && IsOver(now)) Begin(now);
    if (counted_ == 0 && said_ < kLinesMax) {
      ++said_;
      return why;
    }
    ++counted_;
    last_ = std::move(why);
    return Due(now);
  }
  /// The line about those that were counted, if it is due; empty: none. To be called now and then, so that the line
  /// does not wait for another failure.
  [[nodiscard]] std::string Due(Instant now) {
    if (counted_ == 0 || !IsOver(now)) return {};
    Begin(now);
    ++said_;
    const std::uint64_t more = std::exchange(counted_, 0);
    return std::to_string(more) + " more connection" + (more == 1 ? "" : "s") + " failed; the last one: " + last_;
  }

 private:
  [[nodiscard]] bool IsOver(Instant now) const { return !began_ || now - *began_ >= kEvery; }
  void Begin(Instant now) {
    began_ = now;
    said_ = 0;
  }

  std::optional<Instant> began_;  // the minute
  int said_ = 0;                  // lines of it
  std::uint64_t counted_ = 0;     // since the last line
  std::string last_;              // why the last one of them failed
};

}  // namespace weir::platform
