// SPDX-License-Identifier: Apache-2.0
// The display of `weir top` and of the demo's live view. Pure: the same snapshots give the same text.
#pragma once

#include <string>

#include "cli/common/snapshot.h"
#include "cli/common/table.h"
#include "cli/common/top_history.h"

namespace weir::cli {

struct TopOptions {
  bool color = false;
  Glyphs glyphs = Glyphs::kUnicode;
  std::size_t columns = 0;  // of the terminal; 0: unlimited
  std::size_t rows = 0;     // of the terminal; 0: unlimited
};

/// A line for each device, then a table of vGPUs. If there is not enough room, the least important columns are left out
/// first, then rows.
std::string RenderTop(const Snapshot& snapshot, const TopHistory& history, const TopOptions& options);

}  // namespace weir::cli
