// SPDX-License-Identifier: Apache-2.0
#include "proto/peer_list.h"

#include <gtest/gtest.h>

namespace weir::proto {
namespace {

TEST(PeerList, ComesBackAsItWas) {
  const std::vector<ListedPeer> peers{{1ULL << 40, 0, "/run/weir/parts-n1.sock"}, {0, 4096, "/tmp/a b/parts-n2.sock"}};
  EXPECT_EQ(PeerListText(peers), "1099511627776 0 /run/weir/parts-n1.sock\n0 4096 /tmp/a b/parts-n2.sock\n");
  EXPECT_EQ(PeersFrom(PeerListText(peers)), peers);
  EXPECT_TRUE(PeersFrom("").empty());
}

TEST(PeerList, OmitsInvalidEntries) {
  EXPECT_EQ(PeersFrom("1\n1 2\n1 2 \nx 2 /a\n-1 2 /a\n99999999999999999999 2 /a\n3 4 /b"),
            (std::vector<ListedPeer>{{3, 4, "/b"}}));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "1 1 /s\n";
  EXPECT_EQ(PeersFrom(many).size(), kPeersListedMax);
}

}  // namespace
}  // namespace weir::proto
