// SPDX-License-Identifier: Apache-2.0
// RUN_DIR/peers: nodes of a cluster that run parts of launches, as the daemon's executors find them. Lines of
// "ROOM_BYTES THREADS SOCKET", where SOCKET is that of the daemon's relay to one. The file is replaced, never written
// to. Page: docs/partition.md
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
  std::uint64_t threads = 0;  // that run there
  std::string socket = {};
  friend bool operator==(const ListedPeer&, const ListedPeer&) = default;
};
std::string PeerListText(const std::vector<ListedPeer>& peers);
/// Lines that make no sense are left out; kPeersListedMax at most.
std::vector<ListedPeer> PeersFrom(std::string_view text);

}  // namespace weir::proto
