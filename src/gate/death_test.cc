// SPDX-License-Identifier: Apache-2.0
// When one end dies, the other continues; and many agents at once.
#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

// -- The daemon dies -------------------------------------------------------------------------------------------------

TEST_F(Gate, AnAgentThatWaitsWhenTheDaemonDiesPassesAndCountsIt) {
  RawClient witness(path_);  // keeps the region after the daemon's end
  ASSERT_TRUE(witness.Attach());
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  host_.reset();
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  EXPECT_FALSE(agent.attached());
  EXPECT_EQ(witness.vgpu().fail_opens, 1u);
  LeaveNow(agent, presenter.ticket(), 3'000'000);
  EXPECT_EQ(witness.vgpu().allowance_ns, -3'000'000) << "the books are kept to the end";
  EXPECT_FALSE(Present(agent));
}

TEST_F(Gate, AnAgentThatHasWaitedForSecondsWhenTheDaemonDiesPassesToo) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  std::this_thread::sleep_for(9 * kWaitSliceMax);  // its slices have grown to the longest
  EXPECT_FALSE(presenter.passed());
  host_.reset();
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  EXPECT_FALSE(agent.attached());
  LeaveNow(agent, presenter.ticket(), 0);
}

TEST_F(Gate, SeveralThreadsThatWaitWhenTheDaemonDiesAllPassAndCountItOnce) {
  RawClient witness(path_);
  ASSERT_TRUE(witness.Attach());
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetMode(GateMode::kPaused);
  std::vector<std::unique_ptr<Presenter>> presenters;
  for (int i = 0; i < 4; ++i) presenters.push_back(std::make_unique<Presenter>(agent));
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 4; }));
  host_.reset();
  for (const auto& presenter : presenters) {
    EXPECT_TRUE(WaitUntil([&] { return presenter->passed(); }));
    LeaveNow(agent, presenter->ticket(), 0);
  }
  EXPECT_EQ(witness.vgpu().fail_opens, 1u);
}

TEST_F(Gate, AnAgentOfADaemonThatHangsPasses) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  host().StopHeart(Duration{2 * proto::kHeartbeatStaleNs});
  EXPECT_FALSE(Present(agent));
  EXPECT_FALSE(agent.attached());
  EXPECT_EQ(host().With([](VgpuGate& gate) { return gate.FailOpens(); }), 1u);
}

TEST_F(Gate, AnAgentThatWaitsWhenTheDaemonHangsPasses) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  CloseGate();
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  host().StopHeart(Duration{2 * proto::kHeartbeatStaleNs});
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  EXPECT_EQ(host().With([](VgpuGate& gate) { return gate.FailOpens(); }), 1u);
  LeaveNow(agent, presenter.ticket(), 0);
}

TEST_F(Gate, AnAgentAttachesToTheNextDaemonAtTheSamePath) {
  Agent agent = MakeAgent();
  for (std::uint64_t daemon = 1; daemon <= 3; ++daemon) {
    if (!host_) host_ = std::make_unique<GateHost>(path_);
    EXPECT_TRUE(Attach(agent));
    EXPECT_EQ(agent.attach_count(), daemon);
    EXPECT_EQ(host().Processes(), 1u);
    // The agent must notice the end of the daemon by itself: through the socket, when it has to wait.
    host().SetMode(GateMode::kPaused);
    const Presenter presenter(agent);
    ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
    host_.reset();
    ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
    LeaveNow(agent, presenter.ticket(), 0);
  }
}

// -- A tenant dies ---------------------------------------------------------------------------------------------------

/// What an executor says once it has carried out this order. Some of it is impossible.
proto::ExecutorStatistics ReportAfter(std::uint32_t order) {
  return {.order_done = order,
          .resident_slots = 11,
          .resident = Bytes{16},
          .need = Bytes{1 << 20},
          .must = Bytes{1 << 10},
          .in_use = Bytes{3},
          .made = Bytes{~0ULL},
          .copied_out = Bytes{6},
          .copied_in = Bytes{7},
          .evictions = 8,
          .switch_copy = Duration{5},
          .steal = Duration{9},
          .elsewhere = Duration{-1},
          .threads = ~0U,
          .launches_in_parts = 11,
          .parts = 12,
          .launches_not_cut = 10,
          .parts_in = Bytes{13},
          .parts_out = Bytes{~0ULL},
          .parts_decide = microseconds(14),
          .parts_compile = microseconds(15)};
}

TEST_F(Gate, MemoryOrdersAreAnswered) {
  Agent agent(path_, proto::Api::kOpenCl, "executor");
  ASSERT_TRUE(Attach(agent));
  EXPECT_FALSE(agent.memory_order().elastic) << "nothing was ordered yet";
  const Controls controls{
      .memory_limit_slots = 16, .memory_elastic = true, .memory_here_slots = 12, .memory_max_slots = 20};
  const std::uint32_t number = host().With([&](VgpuGate& gate) {
    gate.Publish(controls);
    const std::uint32_t first = gate.memory_order();
    gate.Publish(controls);
    EXPECT_EQ(gate.memory_order(), first) << "nothing new";
    return first;
  });
  agent.AwaitMemoryOrder(0, seconds(10));  // the order has arrived: returns at once
  const MemoryOrder order = agent.memory_order();
  EXPECT_EQ(order.number, number);
  EXPECT_TRUE(order.elastic);
  EXPECT_EQ(order.limit, 16u);
  EXPECT_EQ(order.here, 12u);
  EXPECT_EQ(order.max, 20u);

  agent.ReportMemory(ReportAfter(number), /*ring=*/true);
  const auto report = [this] {
    return host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Memory(); });
  };
  const proto::ExecutorStatistics books = report();
  EXPECT_EQ(books.order_done, number);
  EXPECT_EQ(books.resident_slots, 11u);
  EXPECT_EQ(books.need, Bytes{1 << 20});
  EXPECT_EQ(books.must, Bytes{1 << 10});
  EXPECT_EQ(books.in_use, Bytes{3});
  EXPECT_LT(books.made.count, 1ULL << 51) << "impossible amount";
  EXPECT_EQ(books.switch_copy, Duration{5});
  EXPECT_EQ(books.copied_out, Bytes{6});
  EXPECT_EQ(books.copied_in, Bytes{7});
  EXPECT_EQ(books.evictions, 8u);
  EXPECT_EQ(books.steal, Duration{9});
  EXPECT_GE(books.elsewhere, Duration{0}) << "a total is not negative";
  EXPECT_LT(books.threads, 1u << 20);
  EXPECT_EQ(books.launches_not_cut, 10u);
  EXPECT_EQ(books.launches_in_parts, 11u);
  EXPECT_EQ(books.parts, 12u);
  EXPECT_EQ(books.parts_in, Bytes{13});
  EXPECT_LT(books.parts_out.count, 1ULL << 51) << "impossible amount";
  EXPECT_EQ(books.parts_decide, microseconds(14));
  EXPECT_EQ(books.parts_compile, microseconds(15));
  EXPECT_EQ(books.resident, Bytes{16});

  agent.ReportMemory({.resident_slots = 2, .launches_not_cut = 1ULL << 40}, /*ring=*/false);
  EXPECT_EQ(report().resident, Bytes{2 * kSlotBytes.count}) << "executors before protocol 1.5 report no exact size";
  EXPECT_EQ(report().launches_not_cut, ~0U) << "a word of 32 bits saturates";
}

TEST_F(Gate, OnlyPlausibleUseOfAnExecutorIsAccepted) {
  const auto use = [this] {
    return host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Use(); });
  };
  {
    Agent agent(path_, proto::Api::kOpenCl, "executor");
    agent.ReportUse(1, 2);  // not attached yet
    ASSERT_TRUE(Attach(agent));
    EXPECT_EQ(use(), DeviceUse{});
    agent.ReportUse(4096, 1 << 20);
    EXPECT_EQ(use(), (DeviceUse{4096, Bytes{1 << 20}}));
    agent.ReportUse(~0ULL, ~0ULL);
    EXPECT_LT(use().work_items, 1ULL << 49);
    EXPECT_LT(use().memory.count, 1ULL << 51);
  }
}

TEST_F(Gate, UseOfANonExecutorIsIgnored) {
  Agent agent(path_, proto::Api::kGl, "game");
  ASSERT_TRUE(Attach(agent));
  agent.ReportUse(4096, 1 << 20);
  EXPECT_EQ(host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Use(); }), DeviceUse{});
}

TEST_F(Gate, AMemoryOrderOutlivesTheDaemonThatGaveIt) {
  Agent agent(path_, proto::Api::kOpenCl, "executor");
  ASSERT_TRUE(Attach(agent));
  host().With([](VgpuGate& gate) {
    gate.Publish({.memory_limit_slots = 4, .memory_elastic = true, .memory_here_slots = 2});
    return 0;
  });
  ASSERT_EQ(agent.memory_order().here, 2u);
  host_.reset();
  EXPECT_TRUE(WaitUntil([&agent] { return !Present(agent); }));
  EXPECT_TRUE(agent.memory_order().elastic) << "the memory is no less others' for that";
  EXPECT_EQ(agent.memory_order().here, 2u);
}

TEST_F(Gate, TheReservationOfAKilledProcessIsKnown) {
  Child tenant([this] {
    Agent agent(path_, proto::Api::kGl, "doomed");
    if (!PresentUntilAttached(agent)) return 2;
    EnterNow(agent);
    for (;;) ::pause();
    return 1;
  });
  ASSERT_TRUE(WaitUntil([this] { return host().InFlight() == 1; }));
  EXPECT_EQ(tenant.Kill(), 128 + SIGKILL);
  ASSERT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
  const GateHost::Ended ended = host().ended().back();
  EXPECT_EQ(ended.info.program, "doomed");
  EXPECT_EQ(ended.reserved_ns, kFirstPredictionNs);
  EXPECT_EQ(host().AllowanceNs(), -kFirstPredictionNs) << "it stays reserved until the daemon gives it back";
  EXPECT_EQ(host().Waiting(), 0u);
}

TEST_F(Gate, AProcessKilledWhileWaitingLeavesNoWaiter) {
  host().SetMode(GateMode::kPaused);
  Child tenant([this] {
    Agent agent(path_, proto::Api::kGl, "doomed");
    for (;;) EnterNow(agent);
    return 1;
  });
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  tenant.Kill();
  EXPECT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
  EXPECT_EQ(host().ended().back().reserved_ns, 0);
}

TEST_F(Gate, AForkedChildDoesNotHideItsParentsEnd) {
  auto agent = std::make_unique<Agent>(path_, proto::Api::kGl, "parent");
  ASSERT_TRUE(Attach(*agent));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Child child([&] {
    agent->AbandonInChild();
    for (char byte = 'r'; ::write(ends[1], &byte, 1) != 1;) {
    }
    for (;;) ::pause();
    return 1;
  });
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_TRUE(Present(*agent)) << "the parent's own connection is as it was";
  agent.reset();
  EXPECT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
  ::close(ends[0]);
  ::close(ends[1]);
}

// -- Many ------------------------------------------------------------------------------------------------------------

int OpenFds() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST_F(Gate, AHundredVgpusAreAttachedToAndDetachedFromByManyThreads) {
  constexpr std::size_t kVgpus = 100, kThreads = 4, kRounds = 3;
  for (std::size_t i = 1; i < kVgpus; ++i) host().Add(folder_ / std::to_string(i));
  const auto path_of = [this](std::size_t i) { return i == 0 ? path_ : folder_ / std::to_string(i); };
  const int fds = OpenFds();
  std::atomic<std::uint64_t> failed{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t n = 0; n < kVgpus * kRounds; ++n) {
        Agent agent(path_of((n + t * kVgpus / kThreads) % kVgpus), proto::Api::kGl, "loop");
        const bool attached = PresentUntilAttached(agent);
        agent.Describe(proto::MeterKind::kWallClock, "loop");
        for (int frame = 0; attached && frame < 3; ++frame) Present(agent, 1'000);
        failed += attached && agent.attached() ? 0 : 1;
      }
    });
  std::atomic<bool> done{false};
  std::thread sampler([&] {  // the daemon samples at the same time
    for (std::size_t i = 0; !done; i = (i + 1) % kVgpus) {
      host().Drain(i);
      host().Waiting(i);
      host().AllowanceNs(i);
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  sampler.join();
  EXPECT_EQ(failed, 0u);
  EXPECT_TRUE(WaitUntil([this] { return host().attachments() >= kVgpus * kThreads * kRounds; }));
  for (std::size_t i = 0; i < kVgpus; ++i) EXPECT_TRUE(WaitUntil([&] { return host().Processes(i) == 0; })) << i;
  EXPECT_EQ(OpenFds(), fds) << "every descriptor was closed";
}

}  // namespace
}  // namespace weir::gate
