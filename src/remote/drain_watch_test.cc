// SPDX-License-Identifier: Apache-2.0
#include "remote/drain_watch.h"

#include <gtest/gtest.h>

#include <span>

#include "platform/unix_socket.h"
#include "tests/harness/temp_folder.h"

namespace weir::remote {
namespace {

constexpr Instant kNoon = InstantFromNs(1'000'000'000'000);
using Requested = std::vector<std::string>;

class DrainWatchTest : public ::testing::Test {
 protected:
  void Listen() { daemon_ = std::move(*platform::ListenSeqPacket(folder_ / proto::kPortalsSocket, 0600)); }
  /// Accepts the portal's connection.
  void Accept() {
    EXPECT_TRUE(platform::WaitReadable(daemon_.get(), 20'000));
    line_ = std::move(*platform::AcceptUnix(daemon_.get()));
  }
  void Say(const std::string& text) { EXPECT_TRUE(platform::SendPacket(line_.get(), std::as_bytes(std::span(text)))); }
  std::string Heard() {
    const auto packet = platform::ReceivePacket(line_.get(), proto::kDrainListBytesMax);
    return packet ? std::string(reinterpret_cast<const char*>(packet->bytes.data()), packet->bytes.size()) : "nothing";
  }
  testing::TempFolder folder_;
  DrainWatch watch_{folder_ / proto::kPortalsSocket};
  platform::Fd daemon_, line_;
};

TEST_F(DrainWatchTest, ReceivesRequestsAndReportsConnectionCounts) {
  Listen();
  EXPECT_FALSE(watch_.Look(kNoon));
  Accept();
  EXPECT_FALSE((Say("leave\n"), watch_.Look(kNoon)));
  EXPECT_TRUE((Say("leave\ngame full\njob slow\n"), watch_.Look(kNoon)));
  EXPECT_EQ(watch_.Requested(), (Requested{"game", "job"}));
  EXPECT_EQ(watch_.Why("game"), "full");
  EXPECT_EQ(watch_.Why("other"), "");
  for (int i = 0; i < 3; ++i) watch_.Say({{"game", 2, 1}});
  EXPECT_EQ(Heard(), "here\ngame 2 1\n");
  EXPECT_EQ(Heard(), "nothing") << "what is as it was is not said again";
}

TEST_F(DrainWatchTest, RequestsPersistUntilAnotherDaemonChangesThem) {
  EXPECT_FALSE(watch_.Look(kNoon)) << "there is none yet";
  Listen();
  EXPECT_FALSE(watch_.Look(kNoon + milliseconds(900)));
  EXPECT_FALSE(platform::WaitReadable(daemon_.get(), 0)) << "it is not asked for more than once a second";
  EXPECT_FALSE(watch_.Look(kNoon + seconds(1)));
  Accept();
  EXPECT_TRUE((Say("leave\ngame full\n"), watch_.Look(kNoon + seconds(1))));
  watch_.Say({{"game", 1, 1}});
  line_.Reset();
  daemon_.Reset();
  EXPECT_FALSE(watch_.Look(kNoon + seconds(2)));
  EXPECT_EQ(watch_.Requested(), Requested{"game"});
  Listen();
  EXPECT_FALSE(watch_.Look(kNoon + seconds(3)));
  Accept();
  watch_.Say({{"game", 1, 1}});
  EXPECT_EQ(Heard(), "here\ngame 1 1\n") << "the new one has not heard it";
  EXPECT_TRUE((Say("leave\n"), watch_.Look(kNoon + seconds(3))));
  EXPECT_EQ(watch_.Requested(), Requested{});
}

TEST_F(DrainWatchTest, WithoutADaemonThereAreNoRequests) {
  DrainWatch none{""};
  EXPECT_FALSE(none.Look(kNoon));
  EXPECT_EQ(none.Requested(), Requested{});
}

}  // namespace
}  // namespace weir::remote
