// SPDX-License-Identifier: Apache-2.0
#include "cli/common/nearest.h"

#include <algorithm>
#include <vector>

namespace weir::cli {
namespace {

constexpr std::size_t kWordMax = 64;  // longer words are no misspelled names, and take quadratic time

/// The optimal string alignment distance: each letter is part of at most one exchange.
std::size_t Differences(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t wrong = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + wrong});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string NearestName(std::string_view word, std::span<const std::string> names) {
  if (word.size() > kWordMax) return {};
  std::size_t least = std::max<std::size_t>(word.size() / 3, 1) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    const std::size_t differences = Differences(word, name);
    if (differences >= std::min(least, std::max(word.size(), name.size()))) continue;
    least = differences;
    nearest = name;
  }
  return nearest;
}

std::string Suggestion(std::string_view word, std::span<const std::string> names) {
  const std::string nearest = NearestName(word, names);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace weir::cli
