// SPDX-License-Identifier: Apache-2.0
// What `weir top` and the demo's live view show. Pure: the same snapshots, the same picture.
#pragma once

#include <string>

#include "cli/snapshot.h"
#include "cli/table.h"
#include "cli/top_history.h"

namespace weir::cli {

struct TopOptions {
  bool color = false;
  Glyphs glyphs = Glyphs::kUnicode;
  std::size_t columns = 0;  // of the terminal; 0: as wide as it comes
  std::size_t rows = 0;     // likewise
};

/// A line for each device, then a table of vGPUs. Where there is not enough room, the columns that matter least are
/// left out, then rows.
std::string RenderTop(const Snapshot& snapshot, const TopHistory& history, const TopOptions& options);

}  // namespace weir::cli
