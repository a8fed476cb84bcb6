// SPDX-License-Identifier: Apache-2.0
// Text of strangers for logs and terminals.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace weir {

/// With '?' in the place of each byte that is not printable ASCII: line ends, which would begin a line of their own in
/// a log, and what steers a terminal. Nobody has checked that the rest is UTF-8.
inline std::string Printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < 0x20 || c >= 0x7F; }, '?');
  return out;
}

}  // namespace weir
