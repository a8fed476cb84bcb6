// SPDX-License-Identifier: Apache-2.0
// The text of a manager's journal: one JSON object a line, each with a checksum of itself and of all lines before it.
//
//   {"fence":7,"weir_journal":2,"crc32c":"0c5d1f6e"}
//   {"fence":7,"set":{"run/1":"..."},"gone":["run/0"],"crc32c":"51a2b3c4"}
//
// The checksum is that of the line up to the comma before "crc32c", continued from the checksum of the line before.
// Version 1 has neither the field weir_journal nor checksums; it is still read.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "cluster/state_store.h"

namespace weir::cluster {

inline constexpr int kJournalVersion = 2;

struct JournalContent {
  std::uint64_t fence = 0;
  std::map<std::string, std::string> records;
  std::size_t good_bytes = 0;  // what follows is a torn record that was never confirmed
};

/// Writes the lines of one file in order.
class JournalWriter {
 public:
  /// Returns the first line and resets the checksum.
  std::string Begin(std::uint64_t fence);
  /// If a key changes more than once, its last change counts.
  std::string Line(std::uint64_t fence, std::span<const Change> changes);

 private:
  std::uint32_t crc_ = 0;
};

/// A last line that is cut off or damaged is ignored: power was lost while it was written. kProtocol: another line is
/// damaged, or lines are missing; the message names the line. kVersionMismatch: a later version.
Result<JournalContent> ParseJournal(std::string_view text);

}  // namespace weir::cluster
