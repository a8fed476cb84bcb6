// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// Splits `text` at every separator: "a,,b" gives "a", "" and "b". An empty text gives one empty part.
inline std::vector<std::string> SplitList(std::string_view text, char separator = ',') {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace weir
