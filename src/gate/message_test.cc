// SPDX-License-Identifier: Apache-2.0
// Messages from the daemon to the processes behind its gates.
#include <cstring>

#include "gate/attachment.h"
#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

/// Waits for the next Ack of the first process.
proto::Ack NextAck(GateHost& host) {
  proto::Ack ack;
  EXPECT_TRUE(WaitUntil([&] {
    return host.With([&ack](VgpuGate& gate) {
      if (gate.processes().empty()) return false;
      auto packet = platform::ReceivePacket(gate.processes().begin()->second->socket(), proto::kAttachMessageBytesMax);
      if (!packet || packet->bytes.empty()) return false;
      const auto message = proto::Decode(packet->bytes);
      if (!message || !std::holds_alternative<proto::Ack>(*message)) return false;
      ack = std::get<proto::Ack>(*message);
      return true;
    });
  }));
  return ack;
}

void Tell(GateHost& host, CommandKind command, std::uint64_t argument = 0) {
  const auto deaf = host.With([=](VgpuGate& gate) { return gate.Tell(command, argument); });
  EXPECT_TRUE(deaf.empty());
}

TEST_F(Gate, APausedProcessWaitsUntilItIsResumedAndAcknowledgesBoth) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().LeaveAcksUnread();
  Tell(host(), CommandKind::kPause);
  const Presenter presenter(agent);
  EXPECT_EQ(NextAck(host()), (proto::Ack{1, Errc::kInternal, true}));
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  EXPECT_FALSE(presenter.passed());
  Tell(host(), CommandKind::kResume);
  EXPECT_EQ(NextAck(host()), (proto::Ack{2, Errc::kInternal, true}));
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  LeaveNow(agent, presenter.ticket(), 0);
}

TEST_F(Gate, APauseReachesAProcessThatIsWaitingAlready) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().LeaveAcksUnread();
  CloseGate();
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  Tell(host(), CommandKind::kPause);
  EXPECT_EQ(NextAck(host()).sequence, 1u);
  host().SetMode(GateMode::kOpen);
  EXPECT_FALSE(presenter.passed());
  Tell(host(), CommandKind::kResume);
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  LeaveNow(agent, presenter.ticket(), 0);
}

// A kernel that is native code of its executor can write to the words that the executor shows the daemon.
TEST_F(Gate, OverwrittenWordsOfItsProcessRegionHoldNoProcess) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  for (const int byte : {0, 0xFF, 0x5A}) {
    const Ticket ticket = agent.Arrive(platform::NowNs());
    ASSERT_NE(ticket.attachment, nullptr);
    proto::ProcessRegion& region = ticket.attachment->process();
    std::memset(static_cast<void*>(&region), byte, sizeof(proto::ProcessRegion));
    agent.Withdraw(ticket);
    EXPECT_TRUE(Present(agent, 5)) << byte;
    EXPECT_EQ(host().InFlight(), 0U) << byte;
    EXPECT_EQ(host().ReservedNs(), 0) << byte;
    host().Drain();
    EXPECT_TRUE(Present(agent, 5)) << byte;
    EXPECT_EQ(host().Drain().frames.size(), 1U) << byte;
    CloseGate();
    const Presenter presenter(agent);
    EXPECT_TRUE(WaitUntil([this] { return host().Waiting() == 1; })) << byte;
    region.waiting = 0;
    EXPECT_TRUE(WaitUntil([this] { return host().Waiting() == 1; })) << "it is shown again: " << byte;
    host().SetMode(GateMode::kOpen);
    EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); })) << byte;
    LeaveNow(agent, presenter.ticket(), 0);
    host().Drain();
  }
}

TEST_F(Gate, AnAgentRefusesUnsupportedCommands) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().LeaveAcksUnread();
  std::uint64_t sequence = 0;
  for (const CommandKind command : {CommandKind::kEvict, CommandKind::kDrain, CommandKind::kMigrate}) {
    Tell(host(), command, 1 << 20);
    EXPECT_TRUE(Present(agent)) << "it passes nevertheless";
    EXPECT_EQ(NextAck(host()), (proto::Ack{++sequence, Errc::kInvalidArgument, false}));
  }
}

TEST_F(Gate, ADetachedProcessGoesOnUnthrottledAndComesBack) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  Tell(host(), CommandKind::kDetach);
  EXPECT_FALSE(Present(agent));
  EXPECT_FALSE(agent.attached());
  EXPECT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
  host().SetMode(GateMode::kOpen);
  EXPECT_TRUE(PresentUntilAttached(agent));
  EXPECT_EQ(agent.attach_count(), 2u);
}

TEST_F(Gate, AProcessThatPassesNoGateStaysAttached) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().LeaveAcksUnread();
  Tell(host(), CommandKind::kPause);
  agent.StayAttached(platform::NowNs());
  EXPECT_EQ(NextAck(host()).sequence, 1U);
  host().With([](VgpuGate& gate) { gate.Detach(gate.processes().begin()->first); });
  EXPECT_TRUE(WaitUntil([&] {
    agent.StayAttached(platform::NowNs());
    return agent.attach_count() == 2;
  }));
  EXPECT_EQ(host().Processes(), 1U);
}

TEST_F(Gate, AWaitingProcessThatIsDetachedPasses) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  Tell(host(), CommandKind::kDetach);
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  LeaveNow(agent, presenter.ticket(), 0);
  EXPECT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
}

TEST_F(Gate, AProcessThatReadsNoMessagesIsNamed) {
  RawClient deaf(path_);
  ASSERT_TRUE(deaf.Attach());
  std::vector<ProcessId> named;
  for (int i = 0; i < 100'000 && named.empty(); ++i)
    named = host().With([](VgpuGate& gate) { return gate.Tell(CommandKind::kEvict, 0); });
  EXPECT_EQ(named, std::vector{ProcessId{deaf.process_id()}});
}

}  // namespace
}  // namespace weir::gate
