// SPDX-License-Identifier: Apache-2.0
#include "gate/turns.h"

#include <functional>
#include <memory>
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

TEST(WaitSlice, GrowsWithTheWaitAndLeavesTheBitOfItsAgeOrTheNextOne) {
  EXPECT_EQ(WaitSlice(Duration{-1}), kWaitSlice);
  EXPECT_EQ(WaitSlice(milliseconds(400)), kWaitSlice);
  EXPECT_EQ(WaitSlice(milliseconds(800)), milliseconds(100));
  EXPECT_EQ(WaitSlice(seconds(86'400)), kWaitSliceMax);
  for (Duration waited{0}; waited < seconds(60); waited += milliseconds(7))
    EXPECT_LE(TurnBit(waited + WaitSlice(waited)), 2 * TurnBit(waited)) << waited.count();
}

/// Records the ages that a waker tries. For each age in `there`, a thread waits.
struct Wakes {
  std::uint32_t there = 0;
  std::vector<std::uint32_t> tried{};
  bool operator()(std::atomic<std::uint32_t>&, std::uint32_t bits) {
    tried.push_back(bits);
    return (bits & there) != 0;
  }
};

std::vector<std::uint32_t> TriedBy(proto::VgpuRegion& region, std::uint32_t there) {
  Wakes wakes{.there = there};
  WakeNext(region, std::ref(wakes));
  return wakes.tried;
}

TEST(WakeNext, IsOneCallForTheOnlyThreadThatWaits) {
  const auto region = std::make_unique<proto::VgpuRegion>();
  for (const Duration waited : {Duration{0}, 5 * kWaitSlice, 2'000 * kWaitSlice}) {
    const std::uint32_t bit = TurnBit(waited);
    region->waiting_ages = 0;
    NoteTurn(*region, bit);
    EXPECT_EQ(TriedBy(*region, bit), std::vector{bit});
    EXPECT_EQ(TriedBy(*region, bit), std::vector{bit}) << "others of this age may wait";
  }
}

TEST(WakeNext, TriesTheOldestAgeFirstAndForgetsAgesAtWhichNobodyWaits) {
  const auto region = std::make_unique<proto::VgpuRegion>();
  for (const std::uint32_t bit : {1U, 4U, 64U, kWaitsForNoTurn}) NoteTurn(*region, bit);
  EXPECT_EQ(TriedBy(*region, 1U | 4U), (std::vector{64U, 4U}));
  EXPECT_EQ(TriedBy(*region, 1U | 4U), std::vector{4U});
  EXPECT_EQ(TriedBy(*region, 1U), (std::vector{4U, 1U}));
  EXPECT_EQ(TriedBy(*region, 0), (std::vector{1U, kAllTurns})) << "an agent before 1.8 may wait";
  EXPECT_EQ(TriedBy(*region, 0), std::vector{kAllTurns});
}

// A wake does not find a thread that has set its bit and does not sleep yet. That thread must not fall asleep with its
// bit cleared.
TEST(WakeNext, ClearsABitBeforeItIncrementsTheWordOfThoseWhoSetIt) {
  const auto region = std::make_unique<proto::VgpuRegion>();
  const std::uint32_t word = region->wake_word;
  NoteTurn(*region, 1);
  WakeNext(*region, [&](std::atomic<std::uint32_t>& futex, std::uint32_t bit) {
    if (bit != 1) return false;
    EXPECT_EQ(region->waiting_ages, 0U);
    EXPECT_NE(futex, word) << "it does not fall asleep";
    NoteTurn(*region, 1);  // but sets its bit again, and sleeps now
    return false;
  });
  EXPECT_EQ(TriedBy(*region, 1), std::vector{1U});
}

// Each grant is for one frame. When a grant woke all threads, some processes got a fifth of the mean, and others three
// times the mean.
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
