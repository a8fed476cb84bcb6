// SPDX-License-Identifier: Apache-2.0
// Lines of a log about connections that failed, which a stranger can cause as often as it likes. The first failure is
// logged. After each line, others are only counted for a minute, and the next line has their number. Pure: time is an
// argument.
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

  /// The line to log for a connection that failed because of `why`; empty: none, the failure is counted.
  [[nodiscard]] std::string Failed(Instant now, std::string why) {
    if (counted_ == 0 && MaySay(now)) {
      said_at_ = now;
      return why;
    }
    ++counted_;
    last_ = std::move(why);
    return Due(now);
  }
  /// The line about those that were counted, if it is due; empty: none. To be called now and then, so that the line
  /// does not wait for another failure.
  [[nodiscard]] std::string Due(Instant now) {
    if (counted_ == 0 || !MaySay(now)) return {};
    said_at_ = now;
    const std::uint64_t more = std::exchange(counted_, 0);
    return std::to_string(more) + " more connection" + (more == 1 ? "" : "s") + " failed; the last one: " + last_;
  }

 private:
  [[nodiscard]] bool MaySay(Instant now) const { return !said_at_ || now - *said_at_ >= kEvery; }

  std::optional<Instant> said_at_;
  std::uint64_t counted_ = 0;  // since the last line
  std::string last_;           // why the last one of them failed
};

}  // namespace weir::platform
