// SPDX-License-Identifier: Apache-2.0
// ParseJournal accepts any bytes without crashing. A journal that it returns is unchanged after it was written and read
// again, and its good part alone gives the same result.
#include <cstdlib>

#include "cluster/state_journal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::cluster;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = ParseJournal(text);
  if (!first) return 0;
  const auto good = ParseJournal(text.substr(0, first->good_bytes));
  if (!good || good->records != first->records || good->fence != first->fence) std::abort();
  JournalWriter writer;
  std::string again = writer.Begin(first->fence);
  for (const auto& [key, value] : first->records) {
    const Change change{key, value};
    again += writer.Line(first->fence, std::span(&change, 1));
  }
  const auto second = ParseJournal(again);
  if (!second || second->records != first->records || second->fence != first->fence) std::abort();
  return 0;
}
