// SPDX-License-Identifier: Apache-2.0
#include "kernel/source_lines.h"

namespace weir::kernel {

std::string Spliced(std::string_view source) {
  std::string spliced;
  spliced.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      const std::size_t end = source.find_first_not_of(" \t\v\f", i + 1);
      if (end != std::string_view::npos && (source[end] == '\n' || source[end] == '\r')) {
        const bool both = end + 1 < source.size() && source[end + 1] == (source[end] == '\n' ? '\r' : '\n');
        i = both ? end + 1 : end;
        continue;
      }
    }
    spliced += source[i];
  }
  return spliced;
}

bool HasTrigraphs(std::string_view source) {
  constexpr std::string_view kThirds = "=/'()!<>-";
  for (std::size_t at = source.find("?\?"); at != std::string_view::npos; at = source.find("?\?", at + 1))
    if (at + 2 < source.size() && kThirds.find(source[at + 2]) != std::string_view::npos) return true;
  return false;
}

}  // namespace weir::kernel
