// SPDX-License-Identifier: Apache-2.0
// RUN_DIR/peers: nodes of a cluster that run parts of launches, for the daemon's executors. Lines of "ROOM_BYTES
// THREADS SOCKET", where SOCKET is the socket of the daemon's relay to the node. The file is replaced atomically and
// never modified. Page: docs/partition.md
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proto {

inline constexpr std::size_t kPeerListBytesMax = 64 << 10;
inline constexpr std::size_t kPeersListedMax = 64;

struct ListedPeer {
  std::uint64_t room_bytes = 0;
  std::uint64_t threads = 0;  // work-items of the launches that run on the peer now
  std::string socket = {};
  friend bool operator==(const ListedPeer&, const ListedPeer&) = default;
};
std::string PeerListText(const std::vector<ListedPeer>& peers);
/// Skips malformed lines; returns at most kPeersListedMax.
std::vector<ListedPeer> PeersFrom(std::string_view text);

}  // namespace weir::proto
