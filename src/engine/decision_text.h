// SPDX-License-Identifier: Apache-2.0
// The text of decisions. The engine makes decisions as typed values. The daemon takes their text from here when it logs
// them.
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
