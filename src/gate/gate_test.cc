// SPDX-License-Identifier: Apache-2.0
// Both ends of a gate in one process (and in forked children): what holds when everybody behaves, and when one dies.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "base/prng.h"
#include "gate/agent.h"
#include "gate/host.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::gate {
namespace {

using proto::CommandKind;
using proto::GateMode;
using weir::testing::Child;
using weir::testing::CodeOf;
using weir::testing::GateHost;
using weir::testing::RawClient;
using weir::testing::TempFolder;
using weir::testing::WaitUntil;

constexpr std::int64_t kFirstPredictionNs = 1'000'000;

Ticket EnterNow(Agent& agent) { return agent.Enter(platform::NowNs()); }

void LeaveNow(Agent& agent, const Ticket& ticket, std::int64_t gpu_ns) {
  const std::int64_t now_ns = platform::NowNs();
  agent.Leave(
      ticket,
      {.surface = 0, .begin_ns = now_ns, .present_ns = now_ns - ticket.wait_ns, .end_ns = now_ns, .gpu_ns = gpu_ns});
}

/// One frame. True: it passed a gate.
bool Present(Agent& agent, std::int64_t gpu_ns = 0) {
  const Ticket ticket = EnterNow(agent);
  LeaveNow(agent, ticket, gpu_ns);
  return ticket.attachment != nullptr;
}

/// More than one attempt only where the machine is so busy that the answer comes too late for the first.
bool PresentUntilAttached(Agent& agent) {
  return WaitUntil([&agent] { return Present(agent); });
}

/// A thread that presents once and is then seen to have passed.
class Presenter {
 public:
  explicit Presenter(Agent& agent)
      : thread_([this, &agent] {
          ticket_ = EnterNow(agent);
          passed_ = true;
        }) {}
  ~Presenter() { thread_.join(); }
  [[nodiscard]] bool passed() const { return passed_; }
  [[nodiscard]] const Ticket& ticket() const { return ticket_; }

 private:
  Ticket ticket_;
  std::atomic<bool> passed_{false};
  std::thread thread_;
};

class Gate : public ::testing::Test {
 protected:
  Gate() : path_(folder_ / "v"), host_(std::make_unique<GateHost>(path_)) {}

  GateHost& host() { return *host_; }
  /// Attaches with a frame that costs nothing and leaves no trace.
  bool Attach(Agent& agent) {
    const bool attached = PresentUntilAttached(agent);
    host_->Settle();
    host_->Drain();
    return attached;
  }
  Agent MakeAgent(const std::string& program = "test") { return Agent(path_, proto::Api::kGl, program); }

  TempFolder folder_;
  const std::string path_;
  std::unique_ptr<GateHost> host_;
};

// -- Attaching -------------------------------------------------------------------------------------------------------

TEST_F(Gate, AnAgentAttachesWhenItFirstPasses) {
  Agent agent = MakeAgent("glxgears");
  EXPECT_FALSE(agent.attached());
  EXPECT_TRUE(agent.Wanted());
  EXPECT_TRUE(Attach(agent));
  EXPECT_TRUE(agent.attached());
  EXPECT_EQ(agent.attach_count(), 1u);
  EXPECT_EQ(agent.last_error(), "");
  const ProcessInfo info = host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Info(); });
  EXPECT_EQ(info.pid, ::getpid());
  EXPECT_EQ(info.uid, ::geteuid());
  EXPECT_EQ(info.api, proto::Api::kGl);
  EXPECT_EQ(info.program, "glxgears");
  EXPECT_EQ(info.meter, proto::MeterKind::kNone);
}

TEST_F(Gate, AnAgentWithoutAPathNeverAttaches) {
  Agent agent("", proto::Api::kGl, "test");
  EXPECT_FALSE(agent.Wanted());
  EXPECT_FALSE(Present(agent));
  EXPECT_EQ(host().Processes(), 0u);
}

TEST_F(Gate, AnAgentWithNobodyThereGoesOnAndSaysWhy) {
  Agent agent(folder_ / "nobody", proto::Api::kGl, "test");
  EXPECT_FALSE(Present(agent));
  EXPECT_FALSE(agent.attached());
  EXPECT_NE(agent.last_error().find("nobody"), std::string::npos) << agent.last_error();
  EXPECT_FALSE(agent.Wanted()) << "it is not asked again at every frame";
}

TEST_F(Gate, AnAgentThatGoesIsSeenToGo) {
  {
    Agent agent = MakeAgent();
    ASSERT_TRUE(Present(agent));
    EXPECT_EQ(host().Processes(), 1u);
  }
  EXPECT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
}

TEST_F(Gate, AnAgentLearnsWhichCpusTheDeviceConsistsOf) {
  proto::CpuMask cpus{};
  cpus[0] = 0b1010;
  cpus[15] = 1ULL << 63;
  const std::size_t index = host().Add(folder_ / "cpus", cpus);
  Agent agent(folder_ / "cpus", proto::Api::kGl, "test");
  EXPECT_EQ(agent.device_cpus(), proto::CpuMask{});
  ASSERT_TRUE(Attach(agent));
  EXPECT_EQ(agent.device_cpus(), cpus);
  EXPECT_EQ(host().Processes(index), 1u);
}

TEST_F(Gate, ADescriptionArrives) {
  Agent agent = MakeAgent();
  agent.Describe(proto::MeterKind::kWallClock, "nobody hears this");
  ASSERT_TRUE(Attach(agent));
  agent.Describe(proto::MeterKind::kTimerQuery, "A renderer with a rather long name");
  agent.Describe(proto::MeterKind::kWorkerCpuTime, "llvmpipe \"x\"\n");
  const auto info = [this] {
    return host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Info(); });
  };
  EXPECT_EQ(info().meter, proto::MeterKind::kWorkerCpuTime);
  EXPECT_EQ(info().renderer, "llvmpipe \"x\"?");
  agent.Describe(proto::MeterKind::kTimerQuery, std::string(500, 'r').c_str());
  EXPECT_EQ(info().renderer, std::string(127, 'r'));
}

TEST_F(Gate, MakingAGateWhereAnotherListensLeavesThatOneAlone) {
  const auto second = VgpuGate::Make(VgpuId{2}, path_, ::geteuid(), {}, platform::NowNs());
  EXPECT_EQ(CodeOf(second), Errc::kBusy);
  Agent agent = MakeAgent();
  EXPECT_TRUE(Attach(agent)) << agent.last_error();
}

TEST_F(Gate, MakingAGateWhereAFileIsLeavesTheFileAlone) {
  ASSERT_TRUE(platform::WriteFileAtomically(folder_ / "file", "precious"));
  EXPECT_EQ(CodeOf(VgpuGate::Make(VgpuId{2}, folder_ / "file", 0, {}, platform::NowNs())), Errc::kAlreadyExists);
  const auto content = platform::ReadFile(folder_ / "file", 100);
  ASSERT_TRUE(content);
  EXPECT_EQ(*content, "precious");
}

TEST_F(Gate, AnotherUserIsRefusedAndToldWhy) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  Child stranger([this] {
    if (::setuid(65'534) != 0) return 2;
    Agent agent(path_, proto::Api::kGl, "stranger");
    const auto told = [&agent] { return agent.last_error().find("may not attach") != std::string::npos; };
    return WaitUntil([&] { return Present(agent) || told(); }) && told() && !agent.attached() ? 0 : 1;
  });
  EXPECT_EQ(stranger.Wait(), 0);
  EXPECT_TRUE(WaitUntil([this] { return host().refused() > 0; }));
  EXPECT_EQ(host().last_refusal().code, Errc::kPermissionDenied);
  EXPECT_EQ(host().Processes(), 0u);
}

TEST_F(Gate, ItsOwnerMayAttach) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  host().Add(folder_ / "theirs", {}, 65'534);
  Child owner([this] {
    if (::setuid(65'534) != 0) return 2;
    Agent agent(folder_ / "theirs", proto::Api::kGl, "owner");
    return PresentUntilAttached(agent) ? 0 : 1;
  });
  EXPECT_EQ(owner.Wait(), 0);
}

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
  const auto reserved = [this] {
    return host().With([](VgpuGate& gate) { return gate.processes().begin()->second->ReservedNs(); });
  };
  Prng prng(20180521);
  std::int64_t used = 0;
  for (int i = 0; i < 200; ++i) {
    const Ticket ticket = EnterNow(agent);
    ASSERT_NE(ticket.attachment, nullptr);
    EXPECT_GT(ticket.reserved_ns, 0);
    EXPECT_EQ(reserved(), ticket.reserved_ns);
    EXPECT_EQ(host().AllowanceNs(), 10'000'000'000 - used - ticket.reserved_ns);
    const std::int64_t gpu_ns = prng.Between(0, 20'000'000);
    used += gpu_ns;
    LeaveNow(agent, ticket, gpu_ns);
    EXPECT_EQ(reserved(), 0);
  }
  EXPECT_EQ(host().AllowanceNs(), 10'000'000'000 - used);
  EXPECT_EQ(host().InFlight(), 0u);
}

TEST_F(Gate, GpuTimeOfLessThanNothingIsNothing) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  ASSERT_TRUE(Present(agent, -5'000'000));
  EXPECT_EQ(host().AllowanceNs(), 0);
}

TEST_F(Gate, AnOverdrawnGateIsPassedAfterAGrantAndAWake) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
  const Presenter presenter(agent);
  ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
  for (int i = 0; i < 20; ++i) host().Wake();  // being woken is not enough
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
  ASSERT_TRUE(Present(agent, 40'000'000));  // overdrawn by one frame, and no more
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

TEST_F(Gate, OfSeveralProcessesThatShareTheLastOfTheAllowanceOnePasses) {
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

TEST_F(Gate, OfSeveralThreadsOfOneProcessOnePasses) {
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
  host().With([](VgpuGate& gate) { gate.WantDoorbell(true); });
  ASSERT_TRUE(Present(agent));
  EXPECT_TRUE(Rang(host()));
  EXPECT_FALSE(Rang(host())) << "it was answered";
  host().With([](VgpuGate& gate) { gate.WantDoorbell(false); });
  ASSERT_TRUE(Present(agent));
  EXPECT_FALSE(Rang(host()));
}

TEST_F(Gate, TheDoorbellRingsWhenSomebodyHasToWait) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
  host().With([](VgpuGate& gate) { gate.WantDoorbell(true); });
  const Presenter presenter(agent);
  EXPECT_TRUE(WaitUntil([this] { return Rang(host()); }));
  EXPECT_FALSE(presenter.passed());
  EXPECT_EQ(host().Waiting(), 1u);
  host().SetMode(GateMode::kOpen);
  EXPECT_TRUE(WaitUntil([&] { return presenter.passed(); }));
  LeaveNow(agent, presenter.ticket(), 0);
}

// -- Records ---------------------------------------------------------------------------------------------------------

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

TEST_F(Gate, RecordsThatCannotBeTrueAreCountedAsBad) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  const std::int64_t now_ns = platform::NowNs();
  constexpr std::int64_t kSecond = 1'000'000'000, kDay = 86'400 * kSecond;
  const proto::Record good{.sequence = 10,
                           .kind = static_cast<std::uint32_t>(proto::RecordKind::kFrame),
                           .surface = 0,
                           .begin_ns = now_ns - 30,
                           .present_ns = now_ns - 20,
                           .submit_ns = now_ns - 13,
                           .end_ns = now_ns - 10,
                           .gpu_ns = 5,
                           .sync_ns = 1,
                           .pace_ns = 2,
                           .wait_ns = 4,
                           .predicted_ns = 3,
                           .interval_ns = 20,
                           .reserved_ns = 0,
                           .tasks = 0,
                           .reserved = {}};
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
  expect_bad("a kind that nobody knows", [](auto& r) { r.kind = 0; });
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
    if (now_ns <= kDay) r.wait_ns = 1;  // a machine that runs for less than a day: spoilt otherwise
  });
  expect_bad("negative GPU time", [](auto& r) { r.gpu_ns = -1; });
  expect_bad("more GPU time than a day", [](auto& r) { r.gpu_ns = kDay + 1; });
  expect_bad("negative wait", [](auto& r) { r.wait_ns = -1; });
  expect_bad("a wait longer than it was held", [](auto& r) { r.wait_ns = r.submit_ns - r.present_ns + 1; });
  expect_bad("negative synchronisation", [](auto& r) { r.sync_ns = -1; });
  expect_bad("negative delay", [](auto& r) { r.pace_ns = -1; });
  expect_bad("parts that add up to more than it was held", [](auto& r) { r.pace_ns = r.submit_ns - r.present_ns; });
  expect_bad("a negative prediction", [](auto& r) { r.predicted_ns = -1; });
  expect_bad("an interval beyond belief", [](auto& r) { r.interval_ns = kDay + 1; });
  proto::Record last = good;
  last.sequence = ++sequence;
  EXPECT_EQ(drain(last).frames.size(), 1u) << "after bad ones, a good one is believed";
}

// -- Messages --------------------------------------------------------------------------------------------------------

/// The next Ack of the first process, whenever it comes.
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
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
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

TEST_F(Gate, WhatAnAgentCannotDoItRefuses) {
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
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
  Tell(host(), CommandKind::kDetach);
  EXPECT_FALSE(Present(agent));
  EXPECT_FALSE(agent.attached());
  EXPECT_TRUE(WaitUntil([this] { return host().Processes() == 0; }));
  host().SetMode(GateMode::kOpen);
  EXPECT_TRUE(PresentUntilAttached(agent));
  EXPECT_EQ(agent.attach_count(), 2u);
}

TEST_F(Gate, AWaitingProcessThatIsDetachedPasses) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
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

// -- The daemon dies -------------------------------------------------------------------------------------------------

TEST_F(Gate, AnAgentThatWaitsWhenTheDaemonDiesPassesAndCountsIt) {
  RawClient witness(path_);  // keeps the region when the daemon is gone
  ASSERT_TRUE(witness.Attach());
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
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
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
  host().StopHeart(Duration{2 * proto::kHeartbeatStaleNs});
  EXPECT_FALSE(Present(agent));
  EXPECT_FALSE(agent.attached());
  EXPECT_EQ(host().With([](VgpuGate& gate) { return gate.FailOpens(); }), 1u);
}

TEST_F(Gate, AnAgentThatWaitsWhenTheDaemonHangsPasses) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  host().SetAllowance(0);
  host().SetMode(GateMode::kGated);
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
    // It must notice by itself: through the socket when it has to wait.
    host().SetMode(GateMode::kPaused);
    const Presenter presenter(agent);
    ASSERT_TRUE(WaitUntil([this] { return host().Waiting() == 1; }));
    host_.reset();
    ASSERT_TRUE(WaitUntil([&] { return presenter.passed(); }));
    LeaveNow(agent, presenter.ticket(), 0);
  }
}

// -- A tenant dies ---------------------------------------------------------------------------------------------------

TEST_F(Gate, MemoryIsOrderedAndAnsweredFor) {
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
  agent.AwaitMemoryOrder(0, seconds(10));  // it has come: no wait
  const MemoryOrder order = agent.memory_order();
  EXPECT_EQ(order.number, number);
  EXPECT_TRUE(order.elastic);
  EXPECT_EQ(order.limit, 16u);
  EXPECT_EQ(order.here, 12u);
  EXPECT_EQ(order.max, 20u);

  agent.ReportMemory({.done = number,
                      .resident_slots = 11,
                      .need_bytes = 1 << 20,
                      .must_bytes = 1 << 10,
                      .in_use_bytes = 3,
                      .made_bytes = ~0ULL,
                      .switch_copy_ns = 5,
                      .copied_out = 6,
                      .copied_in = 7,
                      .evictions = 8,
                      .steal_ns = 9,
                      .elsewhere_ns = -1,
                      .threads = ~0U,
                      .launches_not_cut = 10,
                      .launches_in_parts = 11,
                      .parts = 12,
                      .parts_in = 13,
                      .parts_out = ~0ULL,
                      .parts_decide_us = 14,
                      .parts_compile_us = 15,
                      .resident_bytes = 16},
                     /*ring=*/true);
  const MemoryBooks books = host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Memory(); });
  EXPECT_EQ(books.order_done, number);
  EXPECT_EQ(books.resident_slots, 11u);
  EXPECT_EQ(books.need, Bytes{1 << 20});
  EXPECT_EQ(books.must, Bytes{1 << 10});
  EXPECT_EQ(books.in_use, Bytes{3});
  EXPECT_LT(books.made.count, 1ULL << 51) << "nobody has that much";
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
  EXPECT_LT(books.parts_out.count, 1ULL << 51) << "nobody has copied that much";
  EXPECT_EQ(books.parts_decide, microseconds(14));
  EXPECT_EQ(books.parts_compile, microseconds(15));
  EXPECT_EQ(books.resident, Bytes{16});
}

TEST_F(Gate, UseIsAnExecutorsAndWithinWhatCanBeBelieved) {
  const auto use = [this] {
    return host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Use(); });
  };
  {
    Agent agent(path_, proto::Api::kOpenCl, "executor");
    agent.ReportUse(1, 2);  // nobody is there yet
    ASSERT_TRUE(Attach(agent));
    EXPECT_EQ(use(), DeviceUse{});
    agent.ReportUse(4096, 1 << 20);
    EXPECT_EQ(use(), (DeviceUse{4096, Bytes{1 << 20}}));
    agent.ReportUse(~0ULL, ~0ULL);
    EXPECT_LT(use().work_items, 1ULL << 49);
    EXPECT_LT(use().memory.count, 1ULL << 51);
  }
}

TEST_F(Gate, UseOfAProgramThatIsNoExecutorIsNothing) {
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

TEST_F(Gate, AProcessKilledInFlightIsSeenToGoAndWhatItReservedIsKnown) {
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

TEST_F(Gate, AProcessKilledWhileItWaitsLeavesNoWaiterBehind) {
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

TEST_F(Gate, AForkedChildThatAbandonsItsParentsAgentLeavesTheParentsEndToBeSeen) {
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
  std::thread sampler([&] {  // the daemon looks on meanwhile
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
