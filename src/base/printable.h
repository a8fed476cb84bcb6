// SPDX-License-Identifier: Apache-2.0
// Untrusted text for logs and terminals.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace weir {

/// Replaces each byte that is not printable ASCII by '?': line ends, which would begin a new line in a log, and control
/// sequences of terminals. Non-ASCII text is replaced too, since it is not known to be valid UTF-8.
inline std::string Printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < 0x20 || c >= 0x7F; }, '?');
  return out;
}

}  // namespace weir
