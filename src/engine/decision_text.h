// SPDX-License-Identifier: Apache-2.0
// The words for decisions. The engine decides with typed values; who shows a decision asks for its text here.
#pragma once

#include <string>
#include <vector>

#include "engine/events.h"

namespace weir::engine {

/// A decision as text for users: what was decided, its subject, and the reason.
struct Note {
  std::string device;
  std::string kind;  // one word: overload, regained, stolen …
  std::string vgpu;  // empty: the device
  std::string text;
};
Note NoteOf(const Decision& decision);

/// "a, b and 3 more".
std::string NamesInWords(const std::vector<std::string>& names);

}  // namespace weir::engine
