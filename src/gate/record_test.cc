// SPDX-License-Identifier: Apache-2.0
// The records of passed frames.
#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

TEST_F(Gate, RecordsArriveInOrderWithTheirTimes) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  for (int i = 1; i <= 3; ++i) {
    const Ticket ticket = EnterNow(agent);
    agent.Leave(ticket,
                {.surface = 5, .begin_ns = 10 * i, .present_ns = 10 * i + 1, .end_ns = 10 * i + 2, .gpu_ns = i});
  }
  const Drained drained = host().Drain();
  ASSERT_EQ(drained.frames.size(), 3u);
  for (int i = 1; i <= 3; ++i) {
    const HostFrame& frame = drained.frames[static_cast<std::size_t>(i) - 1];
    EXPECT_EQ(frame.pid, ::getpid());
    EXPECT_EQ(frame.begin_ns, 10 * i);
    EXPECT_EQ(frame.present_ns, 10 * i + 1);
    EXPECT_EQ(frame.end_ns, 10 * i + 2);
    EXPECT_EQ(frame.gpu_ns, i);
    EXPECT_EQ(frame.wait_ns, 0);
  }
  EXPECT_EQ(drained.lost + drained.bad, 0u);
  EXPECT_TRUE(host().Drain().frames.empty());
}

TEST_F(Gate, TasksOfABatchAreCountedAndARecordWithoutACountIsOne) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  for (const std::uint32_t tasks : {0U, proto::kRecordCountsTasks, proto::kRecordCountsTasks | 7U, ~0U})
    agent.Leave(EnterNow(agent), {.begin_ns = 1, .present_ns = 2, .end_ns = 3, .gpu_ns = 1, .tasks = tasks});
  const Drained drained = host().Drain();
  ASSERT_EQ(drained.frames.size(), 4u);
  EXPECT_EQ(drained.frames[0].tasks, 1u);
  EXPECT_EQ(drained.frames[1].tasks, 0u);
  EXPECT_EQ(drained.frames[2].tasks, 7u);
  EXPECT_EQ(drained.frames[3].tasks, proto::kRecordTasksMax);
}

TEST_F(Gate, RecordsBeyondAFullRingAreCountedAsLostAndTheRestArrives) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  for (std::uint32_t i = 0; i < proto::kRingRecords + 100; ++i) ASSERT_TRUE(Present(agent, i));
  Drained drained = host().Drain();
  ASSERT_EQ(drained.frames.size(), proto::kRingRecords);
  EXPECT_EQ(drained.frames.front().gpu_ns, 0);
  EXPECT_EQ(drained.frames.back().gpu_ns, proto::kRingRecords - 1);
  EXPECT_EQ(drained.lost, 100u);
  EXPECT_EQ(drained.bad, 0u);
  ASSERT_TRUE(Present(agent, 7));
  drained = host().Drain();
  ASSERT_EQ(drained.frames.size(), 1u);
  EXPECT_EQ(drained.frames.front().gpu_ns, 7);
  EXPECT_EQ(drained.lost, 0u);
}

TEST_F(Gate, ImpossibleRecordsAreCountedAsBad) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  const std::int64_t now_ns = platform::NowNs();
  constexpr std::int64_t kSecond = 1'000'000'000, kDay = 86'400 * kSecond;
  const proto::Record good = weir::testing::GoodRecord(10, now_ns);
  const auto drain = [&](const proto::Record& record) {
    client.Push(record);
    return host().With([now_ns](VgpuGate& gate) {
      Drained drained;
      gate.processes().begin()->second->Drain(now_ns, drained);
      return drained;
    });
  };
  std::uint64_t sequence = good.sequence;
  const auto expect_bad = [&](const char* rule, auto spoil) {
    proto::Record record = good;
    record.sequence = ++sequence;
    spoil(record);
    const Drained drained = drain(record);
    EXPECT_EQ(drained.bad, 1u) << rule;
    EXPECT_TRUE(drained.frames.empty()) << rule;
  };
  EXPECT_EQ(drain(good).frames.size(), 1u);
  expect_bad("an unknown kind", [](auto& r) { r.kind = 0; });
  expect_bad("a kind that is no frame",
             [](auto& r) { r.kind = static_cast<std::uint32_t>(proto::RecordKind::kLaunch); });
  expect_bad("a sequence that stands still", [&](auto& r) { r.sequence = good.sequence; });
  expect_bad("a sequence that goes back", [&](auto& r) { r.sequence = good.sequence - 1; });
  expect_bad("before the beginning of time", [](auto& r) { r.begin_ns = -1; });
  expect_bad("present before begin", [](auto& r) { r.present_ns = r.begin_ns - 1; });
  expect_bad("submitted before present", [](auto& r) { r.submit_ns = r.present_ns - 1; });
  expect_bad("end before it was submitted", [](auto& r) { r.end_ns = r.submit_ns - 1; });
  expect_bad("in the future", [&](auto& r) { r.end_ns = now_ns + kSecond + 1; });
  expect_bad("longer than a day", [&](auto& r) {
    r.begin_ns = 0;
    r.present_ns = r.submit_ns = r.end_ns = std::min(now_ns, kDay + 1);
    if (now_ns <= kDay) r.wait_ns = 1;  // a machine that has run for less than a day: invalid for another reason
  });
  expect_bad("negative GPU time", [](auto& r) { r.gpu_ns = -1; });
  expect_bad("more GPU time than a day", [](auto& r) { r.gpu_ns = kDay + 1; });
  expect_bad("negative wait", [](auto& r) { r.wait_ns = -1; });
  expect_bad("a wait longer than it was held", [](auto& r) { r.wait_ns = r.submit_ns - r.present_ns + 1; });
  expect_bad("negative synchronisation", [](auto& r) { r.sync_ns = -1; });
  expect_bad("negative delay", [](auto& r) { r.pace_ns = -1; });
  expect_bad("parts that add up to more than it was held", [](auto& r) { r.pace_ns = r.submit_ns - r.present_ns; });
  expect_bad("a negative prediction", [](auto& r) { r.predicted_ns = -1; });
  expect_bad("a negative delay of the start", [](auto& r) { r.start_delay_ns = -1; });
  expect_bad("a start that is delayed beyond the present",
             [](auto& r) { r.start_delay_ns = r.present_ns - r.begin_ns + 1; });
  expect_bad("a delay of the start beyond belief",
             [](auto& r) { r.start_delay_ns = std::numeric_limits<std::int64_t>::max(); });
  expect_bad("an interval beyond belief", [](auto& r) { r.interval_ns = kDay + 1; });
  proto::Record last = good;
  last.sequence = ++sequence;
  EXPECT_EQ(drain(last).frames.size(), 1u) << "after bad ones, a good one is believed";
}

}  // namespace
}  // namespace weir::gate
