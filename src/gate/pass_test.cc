// SPDX-License-Identifier: Apache-2.0
// Passing a gate: allowance, debt, waiting, and the doorbell.
#include <poll.h>

#include "base/prng.h"
#include "platform/clock.h"
#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

// -- Passing ---------------------------------------------------------------------------------------------------------

TEST_F(Gate, AnOpenGateCountsAndNeverWaits) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Present(agent, 3'000'000));
  EXPECT_EQ(host().AllowanceNs(), -30'000'000);
}

TEST_F(Gate, WhatIsReservedOnEntryIsSettledOnLeaving) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(10'000'000'000);
  host().SetMode(GateMode::kGated);
  Prng prng(20180521);
  std::int64_t used = 0;
  for (int i = 0; i < 200; ++i) {
    const Ticket ticket = EnterNow(agent);
    ASSERT_NE(ticket.attachment, nullptr);
    EXPECT_GT(ticket.reserved_ns, 0);
    EXPECT_EQ(host().ReservedNs(), ticket.reserved_ns);
    EXPECT_EQ(host().AllowanceNs(), 10'000'000'000 - used - ticket.reserved_ns);
    const std::int64_t gpu_ns = prng.Between(0, 20'000'000);
    used += gpu_ns;
    LeaveNow(agent, ticket, gpu_ns);
    EXPECT_EQ(host().ReservedNs(), 0);
  }
  EXPECT_EQ(host().AllowanceNs(), 10'000'000'000 - used);
  EXPECT_EQ(host().InFlight(), 0u);
}

// A program that draws ahead of the device: its meter knows a frame two presents later.
TEST_F(Gate, FramesOfUnknownGpuTimeStayChargedAndReserved) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(1'000'000'000);
  host().SetMode(GateMode::kGated);
  const auto leave = [&](std::int64_t gpu_ns, int unknown) {
    agent.Leave(EnterNow(agent), {.begin_ns = 1, .present_ns = 2, .end_ns = 3, .gpu_ns = gpu_ns, .unknown = unknown});
  };
  leave(6'000'000, 0);
  EXPECT_EQ(host().AllowanceNs(), 994'000'000);
  leave(0, 1);
  leave(0, 2);
  EXPECT_EQ(host().ReservedNs(), 12'000'000) << "two frames";
  EXPECT_EQ(host().AllowanceNs(), 982'000'000);
  leave(6'000'000, 2);
  EXPECT_EQ(host().ReservedNs(), 12'000'000);
  EXPECT_EQ(host().AllowanceNs(), 976'000'000);
  leave(18'000'000, 0);
  EXPECT_EQ(host().ReservedNs(), 0) << "the device has caught up";
  EXPECT_EQ(host().AllowanceNs(), 970'000'000) << "five frames of 6 ms";
}

TEST_F(Gate, ABatchChangesNothingOfWhatFramesAreCharged) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(1'000'000'000);
  host().SetMode(GateMode::kGated);
  agent.Leave(EnterNow(agent), {.begin_ns = 1, .present_ns = 2, .end_ns = 3, .gpu_ns = 6'000'000, .unknown = 0});
  agent.Leave(EnterNow(agent), {.begin_ns = 1, .present_ns = 2, .end_ns = 3, .gpu_ns = 0, .unknown = 1});
  EXPECT_EQ(host().AllowanceNs(), 988'000'000);
  agent.Leave(EnterNow(agent), {.begin_ns = 1, .present_ns = 2, .end_ns = 3, .gpu_ns = 6'000'000});
  EXPECT_EQ(host().AllowanceNs(), 982'000'000);
  EXPECT_EQ(host().ReservedNs(), 6'000'000);
}

// Otherwise the next one would reserve too little.
TEST_F(Gate, GpuTimeThatBecomesKnownBetweenBatchesIsChargedAtOnceAndCountsForTheNextReservation) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(1'000'000'000);
  host().SetMode(GateMode::kGated);
  for (int i = 1; i <= 20; ++i) {
    agent.Leave(EnterNow(agent), {.begin_ns = 1, .present_ns = 2, .end_ns = 3, .gpu_ns = 0});
    agent.Leave(agent.Arrive(platform::NowNs()),
                {.begin_ns = 3, .present_ns = 3, .end_ns = 3, .gpu_ns = 6'000'000, .unknown = Frame::kEndsNothing});
    EXPECT_EQ(host().AllowanceNs(), 1'000'000'000 - i * 6'000'000);
    EXPECT_EQ(host().ReservedNs(), 0);
  }
  const Ticket ticket = EnterNow(agent);
  EXPECT_NEAR(static_cast<double>(ticket.reserved_ns), 6e6, 0.1e6);
  LeaveNow(agent, ticket, 0);
}

TEST_F(Gate, NegativeGpuTimeCountsAsZero) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  ASSERT_TRUE(Present(agent, -5'000'000));
  EXPECT_EQ(host().AllowanceNs(), 0);
}

TEST_F(Gate, AnOverdrawnGateIsPassedAfterAGrantAndAWake) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  for (int i = 0; i < 20; ++i) host().Wake();  // a wake alone does not let it pass
  EXPECT_FALSE(presenter.passed());
  host().SetAllowance(5'000'000);
  host().Wake();
  ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  EXPECT_EQ(host().Waiting(), 0u);
  EXPECT_EQ(host().InFlight(), 1u);
  EXPECT_EQ(host().AllowanceNs(), 5'000'000 - kFirstPredictionNs);
  EXPECT_GT(presenter.ticket().wait_ns, 0);
  LeaveNow(agent, presenter.ticket(), 2'000'000);
  EXPECT_EQ(host().AllowanceNs(), 3'000'000);
}

TEST_F(Gate, DebtIsNotForgiven) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(1);
  host().SetMode(GateMode::kGated);
  ASSERT_TRUE(Present(agent, 40'000'000));  // overdrawn by one frame only
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  EXPECT_EQ(host().AllowanceNs(), 1 - 40'000'000);
  host().With([](VgpuGate& gate) {
    gate.Grant(39'999'999);
    gate.Wake();
  });
  EXPECT_EQ(host().AllowanceNs(), 0);
  EXPECT_FALSE(presenter.passed());
  host().With([](VgpuGate& gate) {
    gate.Grant(1);
    gate.Wake();
  });
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  LeaveNow(agent, presenter.ticket(), 0);
}

TEST_F(Gate, OneOfSeveralProcessesPassesWithTheLastAllowance) {
  constexpr int kAgents = 4;
  std::vector<std::unique_ptr<Agent>> agents;
  for (int i = 0; i < kAgents; ++i) {
    agents.push_back(std::make_unique<Agent>(path_, proto::Api::kGl, "test"));
    ASSERT_TRUE(Attach(*agents.back()));
  }
  host().SetAllowance(1);
  host().SetMode(GateMode::kGated);
  std::vector<std::unique_ptr<Presenter>> presenters;
  for (auto& agent : agents) presenters.push_back(std::make_unique<Presenter>(*agent));
  for (int passed = 1; passed <= kAgents; ++passed) {
    ASSERT_TRUE(WaitUntil([&] { return host().Waiting() == static_cast<std::uint32_t>(kAgents - passed); }));
    ASSERT_TRUE(WaitUntil([&] { return host().InFlight() == static_cast<std::uint32_t>(passed); }));
    EXPECT_EQ(host().AllowanceNs(), 1 - kFirstPredictionNs);
    host().SetAllowance(1);
    host().Wake();
  }
  for (std::size_t i = 0; i < kAgents; ++i) {
    ASSERT_TRUE(WaitUntil([&] { return presenters[i]->passed(); }));
    LeaveNow(*agents[i], presenters[i]->ticket(), 0);
  }
}

TEST_F(Gate, OneOfSeveralThreadsPassesWithTheLastAllowance) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(1);
  host().SetMode(GateMode::kGated);
  std::vector<std::unique_ptr<Presenter>> presenters;
  for (int i = 0; i < 4; ++i) presenters.push_back(std::make_unique<Presenter>(agent));
  ASSERT_TRUE(WaitUntil([&] { return host().Waiting() == 3 && host().InFlight() == 1; }));
  host().SetMode(GateMode::kOpen);
  ASSERT_TRUE(WaitUntil([&] { return host().InFlight() == 4; }));
  for (const auto& presenter : presenters) {
    ASSERT_TRUE(WaitUntil([&] { return presenter->passed(); }));
    LeaveNow(agent, presenter->ticket(), 0);
  }
  EXPECT_EQ(host().InFlight(), 0u);
}

TEST_F(Gate, APausedGateIsPassedWhenItOpens) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(1'000'000'000);
  host().SetMode(GateMode::kPaused);
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  host().Wake();
  EXPECT_FALSE(presenter.passed());
  host().SetMode(GateMode::kOpen);
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  LeaveNow(agent, presenter.ticket(), 0);
}

// -- The doorbell ----------------------------------------------------------------------------------------------------

bool Rang(GateHost& host) {
  return host.With([](VgpuGate& gate) {
    pollfd entry{gate.doorbell(), POLLIN, 0};
    const bool rang = ::poll(&entry, 1, 0) > 0;
    if (rang) gate.AnswerDoorbell();
    return rang;
  });
}

TEST_F(Gate, TheDoorbellRingsOnEntryOnlyWhenWanted) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  EXPECT_FALSE(Rang(host()));
  host().With([](VgpuGate& gate) { gate.WantDoorbell(proto::kRingAtEntry); });
  ASSERT_TRUE(Present(agent));
  EXPECT_TRUE(Rang(host()));
  EXPECT_FALSE(Rang(host())) << "it was answered";
  host().With([](VgpuGate& gate) { gate.WantDoorbell(0); });
  ASSERT_TRUE(Present(agent));
  EXPECT_FALSE(Rang(host()));
}

TEST_F(Gate, TheDoorbellRingsAtTheEndOfTheLastWorkInFlightWhenWanted) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().With([](VgpuGate& gate) { gate.WantDoorbell(proto::kRingAtEnd); });
  const Ticket first = agent.Enter(platform::NowNs());
  const Ticket second = agent.Enter(platform::NowNs());
  EXPECT_FALSE(Rang(host())) << "entering is not an end";
  LeaveNow(agent, first, 0);
  EXPECT_FALSE(Rang(host())) << "other work of this process is still in flight";
  LeaveNow(agent, second, 0);
  EXPECT_TRUE(Rang(host()));
  host().With([](VgpuGate& gate) { gate.WantDoorbell(0); });
  ASSERT_TRUE(Present(agent));
  EXPECT_FALSE(Rang(host()));
}

TEST_F(Gate, TheDoorbellRingsWhenAProcessMustWait) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  host().With([](VgpuGate& gate) { gate.WantDoorbell(proto::kRingAtEntry); });
  const Presenter presenter(agent);
  EXPECT_TRUE(WaitUntil([this] { return Rang(host()); }));
  EXPECT_FALSE(presenter.passed());
  EXPECT_EQ(host().Waiting(), 1u);
  host().SetMode(GateMode::kOpen);
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  LeaveNow(agent, presenter.ticket(), 0);
}

}  // namespace
}  // namespace weir::gate
