// SPDX-License-Identifier: Apache-2.0
#include "platform/pending_peers.h"

#include <gtest/gtest.h>

namespace weir::platform {
namespace {

TEST(PendingPeers, ASilentUserLosesOnlyItsOwnOldestConnections) {
  PendingPeers<int> pending(3, seconds(2));
  const Instant now = InstantFromNs(1);
  const std::uint64_t other = pending.Add(now, 1, 100);
  std::uint64_t last = 0;
  for (int i = 0; i < 600; ++i) last = pending.Add(now, 2, i);
  EXPECT_EQ(pending.entries().size(), 4U);
  EXPECT_EQ(pending.Take(other), 100);
  EXPECT_EQ(pending.Take(last), 599);
  EXPECT_EQ(pending.Take(last - 3), std::nullopt) << "it was dropped for a newer one";
}

TEST(PendingPeers, ASilentConnectionEndsAtItsDeadline) {
  PendingPeers<int> pending(3, seconds(2));
  const Instant now = InstantFromNs(1);
  pending.Add(now, 1, 1);
  const std::uint64_t later = pending.Add(now + seconds(1), 1, 2);
  pending.DropLate(now + seconds(2));
  EXPECT_EQ(pending.entries().size(), 2U);
  pending.DropLate(now + milliseconds(2500));
  EXPECT_EQ(pending.entries().size(), 1U);
  EXPECT_EQ(pending.Take(later), 2);
}

}  // namespace
}  // namespace weir::platform
