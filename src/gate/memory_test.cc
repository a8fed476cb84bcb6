// SPDX-License-Identifier: Apache-2.0
// Memory of programs: several agents of a vGPU, and the daemon's end.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "gate/memory_claim.h"
#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

constexpr std::uint64_t kLimitBytes = kSlotBytes.count, kQuarter = kLimitBytes / 4;

class ProgramMemory : public Gate {
 protected:
  ProgramMemory() { Limit(1); }
  void Limit(std::uint32_t slots) {
    host().With([slots](VgpuGate& gate) { gate.Publish({.memory_limit_slots = slots}); });
  }
  Agent MakeAgent(const std::string& program = "test") { return Agent(path_, proto::Api::kCuda, program); }
  /// How many blocks of `bytes` the agent gets.
  static int Fill(Agent& agent, std::uint64_t bytes = kQuarter) {
    int blocks = 0;
    while (blocks < 1000 && agent.ClaimMemory(bytes)) ++blocks;
    return blocks;
  }
  /// What the daemon reads of each process, in the order of their attachment.
  std::vector<std::uint64_t> Reported() {
    return host().With([](VgpuGate& gate) {
      std::vector<std::uint64_t> all;
      for (const auto& [id, process] : gate.processes()) all.push_back(process->ProgramMemory().count);
      return all;
    });
  }
  /// Attaches without taking memory.
  Agent& Attached(Agent& agent) {
    EXPECT_TRUE(Attach(agent));
    return agent;
  }
};

TEST_F(ProgramMemory, IsGrantedUpToTheLimit) {
  Agent agent = MakeAgent();
  Attached(agent);
  EXPECT_EQ(Fill(agent), 4);
  EXPECT_FALSE(agent.ClaimMemory(1));
  agent.ReleaseMemory(kQuarter);
  EXPECT_TRUE(agent.ClaimMemory(kQuarter));
  EXPECT_EQ(agent.UsedMemory().limit, kLimitBytes);
  EXPECT_EQ(agent.UsedMemory().held, kLimitBytes);
}

TEST_F(ProgramMemory, IsSharedByTheProcessesOfTheVgpu) {
  Agent first = MakeAgent("first"), second = MakeAgent("second");
  Attached(first);
  Attached(second);
  EXPECT_TRUE(first.ClaimMemory(kQuarter));
  EXPECT_EQ(Fill(second), 3);
  EXPECT_FALSE(first.ClaimMemory(1));
  EXPECT_EQ(first.UsedMemory().held, kLimitBytes);
  second.ReleaseMemory(2 * kQuarter);
  EXPECT_EQ(Fill(first), 2);
  EXPECT_EQ(Reported(), (std::vector<std::uint64_t>{3 * kQuarter, kQuarter}));
}

TEST_F(ProgramMemory, IsGrantedUpToTheLimitToThreadsOfAProcess) {
  Agent agent = MakeAgent();
  Attached(agent);
  std::atomic<int> blocks{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { blocks += Fill(agent, kQuarter / 16); });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(blocks, 64);
  EXPECT_EQ(Reported(), std::vector<std::uint64_t>{kLimitBytes});
}

TEST_F(ProgramMemory, ThatIsRefusedIsCounted) {
  Agent agent = MakeAgent();
  Attached(agent);
  Fill(agent);
  EXPECT_FALSE(agent.ClaimMemory(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(host().With([](VgpuGate& gate) { return gate.processes().begin()->second->TakeMemoryRefused(); }), 2U);
}

TEST_F(ProgramMemory, OfAKilledProcessIsFree) {
  Agent agent = MakeAgent();
  {
    Child child([this] {
      Agent mine = MakeAgent("child");
      if (!PresentUntilAttached(mine) || Fill(mine) != 4) ::_exit(1);
      for (;;) ::pause();
      return 0;
    });
    ASSERT_TRUE(WaitUntil([this] { return Reported() == std::vector<std::uint64_t>{kLimitBytes}; }));
    Attached(agent);
    EXPECT_FALSE(agent.ClaimMemory(1));
    child.Kill();
  }
  ASSERT_TRUE(WaitUntil([this] { return host().Processes() == 1; }));
  EXPECT_EQ(agent.UsedMemory().held, 0U);
  EXPECT_EQ(Fill(agent), 4);
}

TEST_F(ProgramMemory, HasTheLimitThatIsInForceNow) {
  Agent agent = MakeAgent();
  Attached(agent);
  Limit(2);
  EXPECT_EQ(Fill(agent), 8);
  Limit(1);
  EXPECT_EQ(agent.UsedMemory().held, 2 * kLimitBytes) << "nothing is taken away";
  EXPECT_FALSE(agent.ClaimMemory(1));
  agent.ReleaseMemory(5 * kQuarter);
  EXPECT_EQ(Fill(agent), 1);
  Limit(0);
  EXPECT_TRUE(agent.ClaimMemory(1ULL << 40));
  EXPECT_EQ(Reported(), std::vector<std::uint64_t>{kLimitBytes + (1ULL << 40)});
}

TEST_F(ProgramMemory, HasTheUpperBoundOfElasticMemoryAsItsLimit) {
  Agent agent = MakeAgent();
  Attached(agent);
  host().With([](VgpuGate& gate) {
    gate.Publish({.memory_limit_slots = 1, .memory_elastic = true, .memory_here_slots = 1, .memory_max_slots = 3});
  });
  EXPECT_EQ(Fill(agent), 12);
}

TEST_F(ProgramMemory, IsKnownToADaemonThatComesBack) {
  Agent agent = MakeAgent();
  Attached(agent);
  EXPECT_TRUE(agent.ClaimMemory(kQuarter));
  host_.reset();
  EXPECT_TRUE(WaitUntil([&] { return !Present(agent); }));
  EXPECT_EQ(Fill(agent), 3) << "while no daemon is there, the last limit holds for each process alone";
  host_ = std::make_unique<GateHost>(path_);
  Limit(1);
  ASSERT_TRUE(PresentUntilAttached(agent));
  EXPECT_EQ(Reported(), std::vector<std::uint64_t>{kLimitBytes});
  Agent other = MakeAgent("other");
  Attached(other);
  EXPECT_FALSE(other.ClaimMemory(1));
  EXPECT_EQ(other.UsedMemory().held, kLimitBytes) << "once";
}

// The daemon may welcome the process again before it notices that its first connection has ended.
TEST_F(ProgramMemory, OfAProcessThatAttachesAgainCountsOnce) {
  Agent agent = MakeAgent(), other = MakeAgent("other");
  Attached(other);
  Attached(agent);
  EXPECT_EQ(Fill(agent), 4);
  RawClient witness(path_);
  ASSERT_TRUE(witness.Attach());
  const auto held = [&witness] { return HeldPages(witness.vgpu().memory); };
  ASSERT_EQ(held(), MemoryPagesOf(kLimitBytes));
  host().StopHeart(seconds(2));
  host().With([&](VgpuGate&) {  // the daemon does nothing meanwhile
    EXPECT_FALSE(Present(agent)) << "the daemon seems to hang";
    EXPECT_EQ(held(), 0U);
  });
}

// A connection that the daemon has ended: the word may be another process's, which holds memory of its own.
TEST_F(ProgramMemory, OfAnotherProcessIsNotGivenUp) {
  Agent agent = MakeAgent();
  Attached(agent);
  EXPECT_TRUE(agent.ClaimMemory(kQuarter));
  host().With([](VgpuGate& gate) { gate.Detach(gate.processes().begin()->first); });
  RawClient next(path_);
  ASSERT_TRUE(next.Attach(proto::Api::kCuda));
  ASSERT_EQ(next.process().memory_word, 1U);
  next.vgpu().memory.words[0] = 5ULL << 32;
  EXPECT_TRUE(agent.ClaimMemory(kQuarter));
  EXPECT_EQ(next.vgpu().memory.words[0], 5ULL << 32);
}

TEST_F(ProgramMemory, OfExecutorsCountsUnderTheSameLimit) {
  Agent agent = MakeAgent();
  Attached(agent);
  host().With([](VgpuGate& gate) { gate.SetExecutorsMemory(Bytes{3 * kQuarter}); });
  EXPECT_EQ(agent.UsedMemory().held, 3 * kQuarter);
  EXPECT_EQ(Fill(agent), 1);
}

TEST_F(ProgramMemory, CountsUnderTheLimitOfExecutors) {
  Agent agent = MakeAgent(), executor(path_, proto::Api::kOpenCl, "executor");
  Attached(agent);
  EXPECT_EQ(Fill(agent, kQuarter), 4);
  host().SetExecutor(::getpid());
  Attached(executor);
  EXPECT_EQ(executor.programs_memory(), 0U) << "the daemon has not looked yet";
  host().With([](VgpuGate& gate) { gate.SetExecutorsMemory(Bytes{kQuarter}); });
  EXPECT_EQ(executor.programs_memory(), kLimitBytes) << "without what the executors hold";
  agent.ReleaseMemory(2 * kQuarter);
  host().With([](VgpuGate& gate) { gate.SetExecutorsMemory(Bytes{kQuarter}); });
  EXPECT_EQ(executor.programs_memory(), 2 * kQuarter);
  host_.reset();
  EXPECT_TRUE(WaitUntil([&] { return !Present(executor); }));
  EXPECT_EQ(executor.programs_memory(), 2 * kQuarter) << "the last answer holds while no daemon is there";
}

TEST_F(ProgramMemory, ThatIsNonsenseLeavesExecutorsNoRoomAndOverflowsNothing) {
  Agent executor(path_, proto::Api::kOpenCl, "executor");
  RawClient hostile(path_);
  ASSERT_TRUE(hostile.Attach(proto::Api::kCuda));
  host().SetExecutor(::getpid());
  Attached(executor);
  for (proto::AtomicU64& word : hostile.vgpu().memory.words) word = std::numeric_limits<std::uint64_t>::max();
  hostile.vgpu().memory.others_pages = std::numeric_limits<std::uint32_t>::max();
  host().With([](VgpuGate& gate) { gate.SetExecutorsMemory(Bytes{kQuarter}); });
  EXPECT_EQ(executor.programs_memory(), std::numeric_limits<std::uint32_t>::max() * proto::kMemoryPageBytes);
}

TEST_F(ProgramMemory, OfExecutorsThatAProgramWritesMeanwhileIsNotThatOfPrograms) {
  Agent executor(path_, proto::Api::kOpenCl, "executor");
  RawClient hostile(path_);
  ASSERT_TRUE(hostile.Attach(proto::Api::kCuda));
  host().SetExecutor(::getpid());
  Attached(executor);
  std::atomic<bool> ended{false};
  std::thread writing([&] {
    while (!ended) hostile.vgpu().memory.others_pages = 0, hostile.vgpu().memory.others_pages = 1'000'000;
  });
  std::uint64_t most = 0;
  for (int i = 0; i < 20'000 && most == 0; ++i) {
    host().With([](VgpuGate& gate) { gate.SetExecutorsMemory(Bytes{kQuarter}); });
    most = executor.programs_memory();
  }
  ended = true;
  writing.join();
  EXPECT_EQ(most, 0U);
}

TEST_F(ProgramMemory, OfAProgramThatWritesNonsenseIsItsVgpusAffair) {
  const std::string other_path = folder_ / "w";
  const std::size_t other = host().Add(other_path);
  host().With(other, [](VgpuGate& gate) { gate.Publish({.memory_limit_slots = 1}); });
  RawClient hostile(path_);
  ASSERT_TRUE(hostile.Attach());
  for (proto::AtomicU64& word : hostile.vgpu().memory.words) word = std::numeric_limits<std::uint64_t>::max();
  hostile.process().memory_bytes = std::numeric_limits<std::uint64_t>::max();
  hostile.process().memory_word = std::numeric_limits<std::uint32_t>::max();
  Agent victim = MakeAgent(), neighbour(other_path, proto::Api::kCuda, "neighbour");
  Attached(victim);
  ASSERT_TRUE(PresentUntilAttached(neighbour));
  EXPECT_FALSE(victim.ClaimMemory(1));
  EXPECT_EQ(Fill(neighbour), 4);
  EXPECT_EQ(std::ranges::max(Reported()), 1ULL << 50) << "clamped";
}

// The daemon ends the connection of a process that does not answer it, and gives the word to another one.
TEST_F(ProgramMemory, IsNeverWrittenIntoAWordOfAnotherProcess) {
  Agent agent = MakeAgent();
  Attached(agent);
  EXPECT_TRUE(agent.ClaimMemory(kQuarter));
  host().With([](VgpuGate& gate) { gate.Detach(gate.processes().begin()->first); });
  RawClient next(path_);
  ASSERT_TRUE(next.Attach(proto::Api::kCuda));
  ASSERT_EQ(next.process().memory_word, 1U);
  EXPECT_TRUE(agent.ClaimMemory(kQuarter));
  EXPECT_EQ(next.vgpu().memory.words[0], 0U);
  Attached(agent);
  EXPECT_EQ(agent.attach_count(), 2U);
  EXPECT_EQ(next.vgpu().memory.words[1] >> 32, MemoryPagesOf(2 * kQuarter));
}

// A program that draws may use CUDA later, in the process that is attached already.
TEST_F(ProgramMemory, OfAProcessThatDrawsIsLimitedToo) {
  for (const proto::Api api : {proto::Api::kGl, proto::Api::kVulkan}) {
    ASSERT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
    Agent agent(path_, api, "game"), other = MakeAgent("other");
    Attached(agent);
    Attached(other);
    EXPECT_TRUE(agent.ClaimMemory(kQuarter));
    EXPECT_EQ(Fill(other), 3);
    EXPECT_FALSE(agent.ClaimMemory(1));
  }
}

TEST_F(ProgramMemory, OfProcessesThatDrawLeavesWordsForOthers) {
  std::vector<RawClient> games;
  constexpr std::size_t kHalf = proto::kMemoryWords / 2;
  for (std::size_t i = 0; i <= kHalf; ++i) {
    games.emplace_back(path_);
    ASSERT_TRUE(games.back().Attach(proto::Api::kGl));
    ASSERT_EQ(games.back().process().memory_word, i < kHalf ? i + 1 : 0);
  }
  std::vector<RawClient> programs;
  for (const proto::Api api : {proto::Api::kCuda, proto::Api::kVulkan}) {
    programs.emplace_back(path_);
    ASSERT_TRUE(programs.back().Attach(api));
    EXPECT_EQ(programs.back().process().memory_word, kHalf + programs.size());
  }
}

// A thread that passes the gate for the first time, or whose meter changes, describes the process while another one
// claims memory.
TEST_F(ProgramMemory, StaysAnnouncedWhenTheProcessIsDescribedMeanwhile) {
  Agent agent = MakeAgent();
  Attached(agent);
  EXPECT_TRUE(agent.ClaimMemory(kQuarter));
  RawClient other(path_);  // it has announced a claim that leaves no room, and is stopped
  ASSERT_TRUE(other.Attach(proto::Api::kCuda));
  proto::MemoryTable& table = other.vgpu().memory;
  proto::AtomicU64& stopped = table.words[other.process().memory_word - 1];
  const std::uint32_t claimed = MemoryPagesOf(2 * kQuarter);
  stopped = claimed;
  bool taken = false;
  std::thread claiming([&] { taken = agent.ClaimMemory(2 * kQuarter); });
  EXPECT_TRUE(WaitUntil([&] { return (table.words[0] & 0xFFFFFFFF) == claimed; }));
  for (int i = 0; i < 3; ++i) {
    agent.Describe(proto::MeterKind::kTimerQuery, "card");
    EXPECT_EQ(table.words[0] & 0xFFFFFFFF, claimed);
  }
  stopped = 0;
  claiming.join();
  EXPECT_TRUE(taken);
  EXPECT_EQ(table.words[0] >> 32, MemoryPagesOf(3 * kQuarter));
}

TEST_F(ProgramMemory, OfAProcessWithoutAWordIsRefusedWhereThereIsALimit) {
  std::vector<RawClient> others;
  others.reserve(proto::kMemoryWords);
  for (std::size_t i = 0; i < proto::kMemoryWords; ++i) {
    others.emplace_back(path_);
    ASSERT_TRUE(others.back().Attach(proto::Api::kCuda));
    ASSERT_EQ(others.back().process().memory_word, i + 1);
  }
  Agent agent = MakeAgent();
  Attached(agent);
  EXPECT_FALSE(agent.ClaimMemory(1));
  Limit(0);
  EXPECT_TRUE(agent.ClaimMemory(1));
  others.erase(others.begin() + 5);
  ASSERT_TRUE(WaitUntil([this] { return host().Processes() == proto::kMemoryWords; }));
  RawClient next(path_);
  ASSERT_TRUE(next.Attach(proto::Api::kCuda));
  EXPECT_EQ(next.process().memory_word, 6U) << "the word of the one that has left";
}

TEST_F(ProgramMemory, HasNoLimitWithoutADaemon) {
  Agent alone("", proto::Api::kCuda, "alone");
  EXPECT_TRUE(alone.ClaimMemory(1ULL << 50));
  EXPECT_EQ(alone.UsedMemory().limit, 0U);
  EXPECT_EQ(alone.UsedMemory().held, 1ULL << 50);
  EXPECT_FALSE(alone.ClaimMemory(std::numeric_limits<std::uint64_t>::max())) << "the sum overflows";
}

}  // namespace
}  // namespace weir::gate
