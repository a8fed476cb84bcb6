// SPDX-License-Identifier: Apache-2.0
// Which peers get a relay and which are listed. The relay here is a program that does nothing; real relays are tested
// in tests/e2e/discovery_e2e.py.
#include "daemon/peer_relays.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "platform/clock.h"
#include "platform/files.h"
#include "proto/peer_list.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

constexpr Duration kLingersInTest = milliseconds(50);

class PeerRelaysTest : public ::testing::Test {
 protected:
  PeerRelaysTest() {
    std::filesystem::create_directory(folder_ / "tokens");
    std::ofstream(folder_ / "tokens/n1.token") << "a token\n";
    // The script ignores its arguments and waits for a signal. One that starts as the test ends may survive it for a
    // minute; it holds no output that a reader of the test waits for.
    std::ofstream(folder_ / "relay") << "#!/bin/sh\necho $$ >> " << folder_ / "pids"
                                     << " && exec sleep 60 >/dev/null 2>&1\n";
    std::filesystem::permissions(folder_ / "relay", std::filesystem::perms(0700));
  }
  ~PeerRelaysTest() override {
    relays_.reset();  // the relays continue to run
    std::ifstream pids(folder_ / "pids");
    for (pid_t pid = 0; pids >> pid;) ::kill(pid, SIGKILL);
  }
  void Make(const std::string& tokens, bool plain) {
    relays_ = std::make_unique<PeerRelays>(loop_, folder_.path(),
                                           PeersSetup{.program = folder_ / "relay", .tokens = tokens, .plain = plain},
                                           /*user=*/0, kLingersInTest);
  }
  static OfferedNode Offered(const std::string& node, bool plain = false) {
    return {.node = node, .address = node + ":7700", .vgpu = "parts", .plain = plain, .room_bytes = 7, .threads = 5};
  }
  [[nodiscard]] std::vector<std::string> Listed() const {
    const auto text = platform::ReadFile(folder_ / "peers", 1 << 16);
    EXPECT_TRUE(text) << text.error().message;
    std::vector<std::string> sockets;
    for (const proto::ListedPeer& peer : proto::PeersFrom(text ? *text : "")) {
      EXPECT_EQ((std::pair{peer.room_bytes, peer.threads}), (std::pair<std::uint64_t, std::uint64_t>{7, 5}));
      sockets.push_back(std::filesystem::path(peer.socket).filename());
    }
    return sockets;
  }
  [[nodiscard]] std::string WhyNot(const std::string& node) const {
    for (const PeerRelayStatus& status : relays_->List())
      if (status.offered.node == node) return status.why_not;
    return "it is not listed";
  }
  /// The number of started relays that have not ended.
  [[nodiscard]] std::size_t Alive() const {
    std::ifstream pids(folder_ / "pids");
    std::size_t alive = 0;
    for (pid_t pid = 0; pids >> pid;) alive += ::kill(pid, 0) == 0 ? 1 : 0;
    return alive;
  }
  void Until(const std::function<bool()>& holds) {
    for (const Instant until = platform::Now() + seconds(20); !holds() && platform::Now() < until;) {
      loop_.restart();
      loop_.run_for(milliseconds(5));
    }
    EXPECT_TRUE(holds()) << Started();
  }
  /// Text for messages: the started processes and their states.
  [[nodiscard]] std::string Started() const {
    std::string text = "started:";
    std::ifstream pids(folder_ / "pids");
    for (std::string pid; pids >> pid;) {
      std::string stat;
      std::getline(std::ifstream("/proc/" + pid + "/stat") >> std::ws, stat);
      text += "\n  " + (stat.empty() ? pid + " is gone" : stat);
    }
    return text;
  }

  testing::TempFolder folder_;
  boost::asio::io_context loop_{1};
  std::unique_ptr<PeerRelays> relays_;
};

using Names = std::vector<std::string>;

TEST_F(PeerRelaysTest, ANodeIsListedWhileItIsOffered) {
  Make(folder_ / "tokens/n1.token", false);
  EXPECT_EQ(Listed(), Names{}) << "the list is there from the beginning";
  ASSERT_TRUE(relays_->Set({Offered("n1"), Offered("n2")}));
  EXPECT_EQ(Listed(), (Names{"parts-n1.sock", "parts-n2.sock"})) << "one token is good at both";
  Until([&] { return Alive() == 2; });
  ASSERT_TRUE(relays_->Set({Offered("n2")}));
  EXPECT_EQ(Listed(), Names{"parts-n2.sock"});
  EXPECT_EQ(Alive(), 2U) << "what it has begun may end";
  Until([&] { return Alive() == 1; });
  relays_.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "peers"));
}

TEST_F(PeerRelaysTest, ANodeThatComesBackInTimeKeepsItsRelay) {
  Make(folder_ / "tokens/n1.token", false);
  ASSERT_TRUE(relays_->Set({Offered("n1")}));
  Until([&] { return Alive() == 1; });
  ASSERT_TRUE(relays_->Set({}));
  ASSERT_TRUE(relays_->Set({Offered("n1")}));
  loop_.restart();
  loop_.run_for(kLingersInTest * 3);
  EXPECT_EQ(Alive(), 1U);
  EXPECT_EQ(Listed(), Names{"parts-n1.sock"});
  // A new address needs a new relay.
  OfferedNode moved = Offered("n1");
  moved.address = "elsewhere:1";
  ASSERT_TRUE(relays_->Set({moved}));
  Until([&] {
    std::ifstream pids(folder_ / "pids");
    return std::count(std::istreambuf_iterator<char>(pids), {}, '\n') == 2 && Alive() == 1;
  });
}

TEST_F(PeerRelaysTest, ATokenIsRequiredWithoutPlain) {
  Make(folder_ / "tokens", false);
  ASSERT_TRUE(relays_->Set({Offered("n1"), Offered("n2"), Offered("n3", /*plain=*/true)}));
  EXPECT_EQ(Listed(), Names{"parts-n1.sock"});
  EXPECT_EQ(WhyNot("n1"), "");
  EXPECT_NE(WhyNot("n2").find("n2.token is not there"), std::string::npos) << WhyNot("n2");
  EXPECT_NE(WhyNot("n3").find("--peers-plain"), std::string::npos) << WhyNot("n3");
  std::ofstream(folder_ / "tokens/n2.token") << "a token\n";
  ASSERT_TRUE(relays_->Set({Offered("n1"), Offered("n2")}));
  EXPECT_EQ(Listed(), (Names{"parts-n1.sock", "parts-n2.sock"})) << "it came later";
}

TEST_F(PeerRelaysTest, WithoutTokensOnlyPlainNodesAreUsed) {
  Make("", true);
  ASSERT_TRUE(relays_->Set({Offered("n1"), Offered("n3", /*plain=*/true)}));
  EXPECT_EQ(Listed(), Names{"parts-n3.sock"});
  EXPECT_NE(WhyNot("n1").find("--peers-token"), std::string::npos) << WhyNot("n1");
}

TEST_F(PeerRelaysTest, UnsafeNodeNamesAreRefused) {
  Make("", true);
  ASSERT_TRUE(relays_->Set({Offered("n3", true)}));
  for (const char* name : {"", "../n", "-n", "a b", "a/b"}) {
    OfferedNode bad = Offered("n4", true);
    bad.node = name;
    EXPECT_EQ(relays_->Set({bad}).error().code, Errc::kInvalidArgument) << name;
    bad = Offered("n4", true);
    bad.vgpu = name;
    EXPECT_EQ(relays_->Set({bad}).error().code, Errc::kInvalidArgument) << name;
  }
  EXPECT_EQ(Listed(), Names{"parts-n3.sock"}) << "nothing has changed";
}

}  // namespace
}  // namespace weir::daemon
