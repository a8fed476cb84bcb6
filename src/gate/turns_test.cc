// SPDX-License-Identifier: Apache-2.0
#include "gate/turns.h"

#include <vector>

#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

TEST(TurnBit, TellsAgesApartByDoubling) {
  EXPECT_EQ(TurnBit(Duration{-1}), 1U);
  EXPECT_EQ(TurnBit(kWaitSlice / 2), 1U);
  EXPECT_EQ(TurnBit(kWaitSlice), 2U);
  EXPECT_EQ(TurnBit(3 * kWaitSlice), 4U);
  EXPECT_EQ(TurnBit(4 * kWaitSlice), 8U);
  EXPECT_EQ(TurnBit(63 * kWaitSlice), 64U);
  EXPECT_EQ(TurnBit(64 * kWaitSlice), 128U);
  EXPECT_EQ(TurnBit(seconds(86'400)), 2048U);
  EXPECT_LT(TurnBit(seconds(86'400)), kWaitsForNoTurn);
}

// Each grant is for one frame. A wake of all threads gave some processes a fifth of the mean, and others three times
// it.
TEST_F(Gate, ManyProcessesGetTheAllowanceInTurn) {
  constexpr int kProcesses = 32, kEach = 12;
  host().SetMode(GateMode::kGated);
  std::atomic<bool> over{false};
  std::vector<std::atomic<int>> passed(kProcesses);
  std::vector<std::thread> processes;
  for (std::atomic<int>& mine : passed)
    processes.emplace_back([&] {
      Agent agent = MakeAgent();
      while (!over) {
        const std::int64_t now_ns = platform::NowNs();
        Ticket ticket = agent.Arrive(now_ns, seconds(20));
        agent.Enter(ticket, now_ns);
        if (!over) ++mine;
        LeaveNow(agent, ticket, ticket.reserved_ns);
      }
    });
  const auto all = [&passed] {
    int sum = 0;
    for (const std::atomic<int>& one : passed) sum += one;
    return sum;
  };
  EXPECT_TRUE(WaitUntil([this] { return host().Waiting() == kProcesses; }));
  for (int frame = 0; frame < kProcesses * kEach; ++frame) {
    std::this_thread::sleep_for(milliseconds(8));  // threads wait several slices for their turn
    host().SetAllowance(1);
    EXPECT_TRUE(WaitUntil([&] {
      if (host().AllowanceNs() > 0) host().With([](VgpuGate& gate) { gate.WakeNext(); });
      return all() > frame;
    }));
  }
  over = true;
  host().SetMode(GateMode::kOpen);
  for (std::thread& process : processes) process.join();
  for (const std::atomic<int>& one : passed) {
    EXPECT_GE(one, kEach / 2);
    EXPECT_LE(one, kEach * 2);
  }
}

TEST_F(Gate, AWokenThreadWakesTheNextWhileThereIsAllowance) {
  constexpr std::size_t kProcesses = 8;
  host().SetMode(GateMode::kGated);
  std::vector<std::unique_ptr<Agent>> agents;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    agents.push_back(std::make_unique<Agent>(path_, proto::Api::kGl, "test"));
    host().SetAllowance(1'000'000'000);
    ASSERT_TRUE(Attach(*agents.back()));
  }
  host().SetAllowance(0);
  std::vector<std::unique_ptr<Presenter>> presenters;
  for (const auto& agent : agents) presenters.push_back(std::make_unique<Presenter>(*agent));
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == kProcesses; }));
  host().SetAllowance(1'000'000'000);
  host().With([](VgpuGate& gate) { gate.WakeNext(); });
  EXPECT_TRUE(WaitUntil([this] { return host().InFlight() == kProcesses; }));
  for (std::size_t i = 0; i < kProcesses; ++i) {
    ASSERT_TRUE(WaitUntil([&] { return presenters[i]->passed(); }));
    LeaveNow(*agents[i], presenters[i]->ticket(), 0);
  }
}

}  // namespace
}  // namespace weir::gate
