// SPDX-License-Identifier: Apache-2.0
// Lists that the daemon, its portals and its executors exchange. Decoding accepts any bytes without crashing, and the
// decoded list is decoded again from its own text. The first byte chooses the list.
#include <cstdint>
#include <cstdlib>

#include "proto/drain_list.h"
#include "proto/peer_list.h"

namespace {

using namespace weir::proto;

void Require(bool holds) {
  if (!holds) std::abort();
}

/// Encoding adds at most the end of the last line, so only a text of maximum length may lose a line.
template <typename List>
void RequireSameAgain(const std::optional<List>& first, std::string_view text, std::string (*write)(const List&),
                      std::optional<List> (*read)(std::string_view)) {
  if (!first) return;
  Require(text.size() <= kDrainListBytesMax);
  const std::string once = write(*first);
  Require(once.size() <= kDrainListBytesMax);
  const auto second = read(once);
  Require(second.has_value());
  if (text.size() < kDrainListBytesMax) Require(*second == *first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0: RequireSameAgain(DrainListFrom(text), text, DrainListText, DrainListFrom); break;
    case 1: {
      const auto first = DrainStateFrom(text);
      RequireSameAgain(first, text, DrainStateText, DrainStateFrom);
      if (!first) break;
      for (const DrainState& one : *first) Require(one.asked <= one.here);
      break;
    }
    default: {
      const auto first = PeersFrom(text);
      Require(first.size() <= kPeersListedMax);
      Require(PeersFrom(PeerListText(first)) == first);
    }
  }
  return 0;
}
