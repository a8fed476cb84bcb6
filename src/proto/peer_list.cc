// SPDX-License-Identifier: Apache-2.0
#include "proto/peer_list.h"

#include <algorithm>
#include <charconv>

namespace weir::proto {
namespace {

/// Consumes a number and the blank after it.
bool TakeWord(std::string_view& line, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  const auto taken = static_cast<std::size_t>(end - line.data());
  if (error != std::errc() || taken >= line.size() || line[taken] != ' ') return false;
  line.remove_prefix(taken + 1);
  return true;
}

}  // namespace

std::string PeerListText(const std::vector<ListedPeer>& peers) {
  std::string text;
  for (const ListedPeer& peer : peers)
    text += std::to_string(peer.room_bytes) + " " + std::to_string(peer.threads) + " " + peer.socket + "\n";
  return text;
}

std::vector<ListedPeer> PeersFrom(std::string_view text) {
  std::vector<ListedPeer> peers;
  while (!text.empty() && peers.size() < kPeersListedMax) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ListedPeer peer;
    if (!TakeWord(line, peer.room_bytes) || !TakeWord(line, peer.threads) || line.empty()) continue;
    peer.socket = line;
    peers.push_back(std::move(peer));
  }
  return peers;
}

}  // namespace weir::proto
