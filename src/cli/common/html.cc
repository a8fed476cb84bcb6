// SPDX-License-Identifier: Apache-2.0
#include "cli/common/html.h"

#include "cli/common/table.h"

namespace weir::cli {

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace weir::cli
