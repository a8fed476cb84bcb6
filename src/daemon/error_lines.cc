// SPDX-License-Identifier: Apache-2.0
#include "daemon/error_lines.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace weir::daemon {

std::vector<std::string> ErrorLines::Add(std::string_view bytes, Instant now) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    line_ += part.substr(0, kLineBytesMax - line_.size());
    if (end == std::string_view::npos) break;
    Complete(now, lines);
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> ErrorLines::End(Instant now) {
  std::vector<std::string> lines;
  Complete(now, lines);
  return lines;
}

void ErrorLines::Complete(Instant now, std::vector<std::string>& lines) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) return;
  const Instant starts = std::max(full_at_, now);
  if (starts - now > (kLinesAtOnce - 1) * kLineEvery) {
    ++dropped_;
    return;
  }
  full_at_ = starts + kLineEvery;
  if (const std::size_t dropped = std::exchange(dropped_, 0); dropped > 0)
    lines.push_back("(" + std::to_string(dropped) + " lines were dropped)");
  lines.push_back(Printable(line));
}

}  // namespace weir::daemon
