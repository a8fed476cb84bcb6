// SPDX-License-Identifier: Apache-2.0
// The cost of a gate: a frame that passes, an attachment, a wake, and the reads of the daemon.
#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>
#include <vector>

#include "gate/agent.h"
#include "platform/clock.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::gate {
namespace {

using weir::testing::GateHost;
using weir::testing::RawClient;
using weir::testing::TempFolder;

void Present(Agent& agent, std::int64_t now_ns) {
  const Ticket ticket = agent.Enter(now_ns);
  agent.Leave(ticket, {.surface = 0, .begin_ns = now_ns, .present_ns = now_ns, .end_ns = now_ns, .gpu_ns = 1'000});
}

// Enter and Leave, including the one read of the clock that every present needs. Allowances are so large that no frame
// waits.

void BM_PassWithoutAPath(benchmark::State& state) {
  Agent agent("", proto::Api::kGl, "bench");
  for (auto _ : state) Present(agent, platform::NowNs());
}
BENCHMARK(BM_PassWithoutAPath);

void BM_PassAttached(benchmark::State& state, proto::GateMode mode) {
  const TempFolder folder;
  GateHost host(folder / "v");
  host.SetAllowance(std::int64_t{1} << 60);
  host.SetMode(mode);
  Agent agent(folder / "v", proto::Api::kGl, "bench");
  const auto attached = [&agent] { return Present(agent, platform::NowNs()), agent.attached(); };
  if (!weir::testing::WaitUntil(attached)) return state.SkipWithError(agent.last_error().c_str());
  constexpr int kBatch = 512;  // half a ring: no record is dropped
  while (state.KeepRunningBatch(kBatch)) {
    for (int i = 0; i < kBatch; ++i) Present(agent, platform::NowNs());
    state.PauseTiming();  // the daemon's work is not measured
    if (host.Drain().lost != 0) return state.SkipWithError("records were dropped");
    state.ResumeTiming();
  }
  if (!agent.attached()) state.SkipWithError("lost its gate on the way");
}
BENCHMARK_CAPTURE(BM_PassAttached, open, proto::GateMode::kOpen);
BENCHMARK_CAPTURE(BM_PassAttached, gated, proto::GateMode::kGated);

// An allocation and its end, beside processes that hold memory.
void BM_ClaimMemory(benchmark::State& state) {
  const TempFolder folder;
  GateHost host(folder / "v");
  host.With([](VgpuGate& gate) { gate.Publish({.memory_limit_slots = 1000}); });
  Agent agent(folder / "v", proto::Api::kCuda, "bench");
  const auto attached = [&agent] { return Present(agent, platform::NowNs()), agent.attached(); };
  if (!weir::testing::WaitUntil(attached)) return state.SkipWithError(agent.last_error().c_str());
  for (auto _ : state) {
    if (!agent.ClaimMemory(1 << 20)) return state.SkipWithError("refused");
    agent.ReleaseMemory(1 << 20);
  }
}
BENCHMARK(BM_ClaimMemory);

void BM_AttachAndDetach(benchmark::State& state) {
  const TempFolder folder;
  const GateHost host(folder / "v");
  for (auto _ : state) {
    Agent agent(folder / "v", proto::Api::kGl, "bench");
    Present(agent, platform::NowNs());
    if (!agent.attached()) return state.SkipWithError(agent.last_error().c_str());
  }
}
BENCHMARK(BM_AttachAndDetach)->Unit(benchmark::kMicrosecond)->UseRealTime();

/// Reading a full ring of records. For a process that presents 1,000 times a second, the daemon reads a twentieth of it
/// every 50 ms.
void BM_DrainAFullRing(benchmark::State& state) {
  const TempFolder folder;
  GateHost host(folder / "v");
  RawClient client(folder / "v");
  if (!client.Attach()) return state.SkipWithError("cannot attach");
  const std::int64_t now_ns = platform::NowNs();
  std::uint64_t sequence = 0;
  Drained drained;
  host.With([&](VgpuGate& gate) {
    ProcessGate& process = *gate.processes().begin()->second;
    for (auto _ : state) {
      state.PauseTiming();
      for (std::uint32_t i = 0; i < proto::kRingRecords; ++i)
        client.Push(weir::testing::GoodRecord(++sequence, now_ns));
      drained.frames.clear();
      state.ResumeTiming();
      process.Drain(now_ns, drained);
    }
  });
  if (drained.frames.size() != proto::kRingRecords) state.SkipWithError("records were lost");
  state.SetItemsProcessed(state.iterations() * proto::kRingRecords);
}
BENCHMARK(BM_DrainAFullRing)->Unit(benchmark::kMicrosecond);

/// Waking the only thread that waits. The daemon's call is timed, and not the woken thread's own call for the next one
/// in turn. The thread has waited for less than 50 ms, as nearly all threads have.
void BM_WakeNext(benchmark::State& state, int waiters) {
  const TempFolder folder;
  GateHost host(folder / "v");
  host.SetMode(proto::GateMode::kGated);
  Agent agent(folder / "v", proto::Api::kGl, "bench");
  host.SetAllowance(1'000'000'000);
  const auto attached = [&agent] { return Present(agent, platform::NowNs()), agent.attached(); };
  if (!weir::testing::WaitUntil(attached)) return state.SkipWithError(agent.last_error().c_str());
  host.SetAllowance(0);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < waiters; ++i)
    threads.emplace_back([&] {
      while (!over) Present(agent, platform::NowNs());
    });
  for (auto _ : state) {
    if (waiters > 0 && !weir::testing::WaitUntil([&] { return host.Waiting() == static_cast<std::uint32_t>(waiters); }))
      return state.SkipWithError("nobody waits");
    const std::int64_t took_ns = host.With([waiters](VgpuGate& gate) {
      if (waiters > 0) gate.Grant(1 - gate.AllowanceNs());
      const std::int64_t begin_ns = platform::NowNs();
      gate.WakeNext();
      return platform::NowNs() - begin_ns;
    });
    state.SetIterationTime(static_cast<double>(took_ns) * 1e-9);
  }
  over = true;
  host.SetMode(proto::GateMode::kOpen);
  for (std::thread& thread : threads) thread.join();
}
BENCHMARK_CAPTURE(BM_WakeNext, nobody, 0)->UseManualTime();
BENCHMARK_CAPTURE(BM_WakeNext, one, 1)->UseManualTime();

/// The daemon's reads of every gate in each poll.
void BM_SampleGates(benchmark::State& state) {
  const auto gates = static_cast<std::size_t>(state.range(0));
  const TempFolder folder;
  GateHost host;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<VgpuGate*> sampled;
  for (std::size_t i = 0; i < gates; ++i) {
    host.Add(folder / std::to_string(i));
    clients.push_back(std::make_unique<RawClient>(folder / std::to_string(i)));
    if (!clients.back()->Attach()) return state.SkipWithError("cannot attach");
    clients.back()->CloseDescriptors();
    host.With(i, [&](VgpuGate& gate) { sampled.push_back(&gate); });
  }
  std::int64_t sum = 0;
  host.With([&](VgpuGate&) {  // the host thread must not touch the gates meanwhile
    for (auto _ : state)
      for (VgpuGate* gate : sampled) {
        sum += gate->AllowanceNs();
        for (const auto& [id, process] : gate->processes()) sum += process->Waiting() + process->InFlight();
      }
  });
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(gates));
}
BENCHMARK(BM_SampleGates)->Arg(1)->Arg(100);

}  // namespace
}  // namespace weir::gate
