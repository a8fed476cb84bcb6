// SPDX-License-Identifier: Apache-2.0
// A vGPU without a place for another process: that process waits, and is never unmanaged while the daemon lives.
#include <sys/socket.h>

#include <vector>

#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

class FullGate : public Gate {
 protected:
  /// Waits until the daemon has refused `times` connections.
  bool Refused(std::size_t times) {
    return WaitUntil([this, times] { return host().refused() >= times; });
  }
};

TEST_F(FullGate, AProcessWithoutAPlaceWaitsUntilAnotherEnds) {
  host().SetPlaces(1);
  auto first = std::make_unique<Agent>(path_, proto::Api::kGl, "first");
  ASSERT_TRUE(Attach(*first));
  Agent second = MakeAgent("second");
  const Presenter presenter(second);
  ASSERT_TRUE(Refused(3));
  EXPECT_FALSE(presenter.passed());
  EXPECT_FALSE(second.attached());
  EXPECT_TRUE(second.Wanted()) << "its other threads must not pass either";
  EXPECT_EQ(host().last_refusal().code, Errc::kResourceExhausted);
  EXPECT_NE(second.last_error().find("has 1 processes already"), std::string::npos) << second.last_error();
  EXPECT_TRUE(Present(*first)) << "those that have a place pass";
  first.reset();
  ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  ASSERT_NE(presenter.ticket().attachment, nullptr);
  EXPECT_EQ(second.last_error(), "");
  LeaveNow(second, presenter.ticket(), 0);
}

// The wait for a place is not part of a frame. Otherwise that frame would count as a long one.
TEST_F(FullGate, TheFrameBeginsWhenTheProcessHasItsPlace) {
  host().SetPlaces(0);
  Agent agent = MakeAgent();
  const Presenter presenter(agent);
  ASSERT_TRUE(Refused(2));
  host().SetPlaces(1);
  ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  EXPECT_TRUE(presenter.ticket().waited_for_place);
  EXPECT_EQ(presenter.ticket().wait_ns, 0);
  LeaveNow(agent, presenter.ticket(), 0);
}

TEST_F(FullGate, NoFrameOfAnyProcessIsUnmanagedWhileTheDaemonLives) {
  constexpr std::size_t kPlaces = 3, kProcesses = 12;
  constexpr int kFrames = 5;
  host().SetPlaces(kPlaces);
  std::atomic<int> managed{0}, unmanaged{0};
  std::atomic<std::size_t> most{0};
  std::vector<std::thread> processes;
  for (std::size_t i = 0; i < kProcesses; ++i)
    processes.emplace_back([&] {
      Agent agent = MakeAgent();
      for (int frame = 0; frame < kFrames; ++frame) {
        const std::int64_t now_ns = platform::NowNs();
        Ticket ticket = agent.Arrive(now_ns, seconds(20));  // the first answer may be late on a busy machine
        agent.Enter(ticket, now_ns);
        ++(ticket.attachment != nullptr ? managed : unmanaged);
        most = std::max<std::size_t>(most, host().Processes());
        LeaveNow(agent, ticket, 0);
      }
    });
  for (std::thread& process : processes) process.join();
  EXPECT_EQ(unmanaged, 0);
  EXPECT_EQ(managed, static_cast<int>(kProcesses) * kFrames);
  EXPECT_LE(most, kPlaces);
}

TEST_F(FullGate, TheDaemonsDeathEndsTheWait) {
  host().SetPlaces(0);
  Agent agent = MakeAgent();
  const Presenter presenter(agent);
  ASSERT_TRUE(Refused(2));
  EXPECT_FALSE(presenter.passed());
  host_.reset();
  ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  EXPECT_EQ(presenter.ticket().attachment, nullptr);
  EXPECT_NE(agent.last_error(), "");
  host_ = std::make_unique<GateHost>(path_);
  EXPECT_TRUE(PresentUntilAttached(agent)) << agent.last_error();
}

/// A daemon that refuses each connection as the test says.
class FullDaemon {
 public:
  explicit FullDaemon(const std::string& path) : listener_(*platform::ListenSeqPacket(path, 0600)) {}
  /// Takes the next connection's Hello and refuses it.
  bool Refuse(Errc code) {
    if (!platform::WaitReadable(listener_.get(), 20'000)) return false;
    const platform::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    return connection && platform::WaitReadable(connection.get(), 20'000) &&
           platform::ReceivePacket(connection.get(), proto::kAttachMessageBytesMax) &&
           platform::SendPacket(connection.get(), proto::Encode(proto::Refusal{code, "a test"}));
  }

 private:
  platform::Fd listener_;
};

class FullDaemonTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  const std::string path_ = folder_ / "v";
  FullDaemon daemon_{path_};
  Agent agent_{path_, proto::Api::kGl, "test"};
};

TEST_F(FullDaemonTest, ThatHangsEndsTheWait) {
  const Presenter presenter(agent_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(daemon_.Refuse(Errc::kResourceExhausted));
  // The daemon listens, and sends nothing more.
  ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  EXPECT_EQ(presenter.ticket().attachment, nullptr);
}

TEST_F(FullDaemonTest, ThatRefusesForAnotherReasonEndsTheWait) {
  for (const Errc other : {Errc::kPermissionDenied, Errc::kUnavailable, Errc::kVersionMismatch}) {
    Agent agent(path_, proto::Api::kGl, "test");
    const Presenter presenter(agent);
    ASSERT_TRUE(daemon_.Refuse(Errc::kResourceExhausted));
    EXPECT_FALSE(presenter.passed());
    ASSERT_TRUE(daemon_.Refuse(other));
    ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
    EXPECT_EQ(presenter.ticket().attachment, nullptr);
  }
}

}  // namespace
}  // namespace weir::gate
