// SPDX-License-Identifier: Apache-2.0
// Finds the name that was probably meant by a misspelled one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir::cli {

/// The name that differs from `word` by the fewest letters (missing, added, wrong, or two exchanged); among equally
/// near names, the first. Empty if the nearest name differs in more than a third of the word's letters, or in all of
/// them.
std::string NearestName(std::string_view word, std::span<const std::string> names);

/// "; did you mean 'NAME'?", or empty.
std::string Suggestion(std::string_view word, std::span<const std::string> names);

}  // namespace weir::cli
