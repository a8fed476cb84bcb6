// SPDX-License-Identifier: Apache-2.0
// Which processes may attach and which are refused.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/files.h"
#include "tests/harness/gate_fixture.h"

namespace weir::gate {
namespace {

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

TEST_F(Gate, AnAgentWithoutADaemonContinuesAndReportsWhy) {
  Agent agent(folder_ / "nobody", proto::Api::kGl, "test");
  EXPECT_FALSE(Present(agent));
  EXPECT_FALSE(agent.attached());
  EXPECT_NE(agent.last_error().find("nobody"), std::string::npos) << agent.last_error();
  EXPECT_FALSE(agent.Wanted()) << "it is not asked again at every frame";
}

TEST_F(Gate, AnAgentOutsideAFrameMayWaitLongerForABusyDaemon) {
  Agent agent = MakeAgent();
  std::atomic<bool> busy{false};
  std::thread daemon([&] {
    host().With([&](VgpuGate&) {
      busy = true;
      std::this_thread::sleep_for(4 * kAttachWait);
    });
  });
  EXPECT_TRUE(WaitUntil([&] { return busy.load(); }));
  const Ticket ticket = agent.Arrive(platform::NowNs(), seconds(30));
  EXPECT_NE(ticket.attachment, nullptr) << agent.last_error();
  if (ticket.attachment != nullptr) agent.Withdraw(ticket);
  daemon.join();
}

TEST_F(Gate, AProcessThatPresentsNothingIsKnownAsSuch) {
  Agent agent = MakeAgent();
  ASSERT_TRUE(Attach(agent));
  const auto with_process = [this](auto read) {
    return host().With([&](VgpuGate& gate) { return read(*gate.processes().begin()->second); });
  };
  const auto changed = [&] { return with_process([](ProcessGate& p) { return p.ObserveDraws(); }); };
  EXPECT_FALSE(changed());
  agent.ReportOffScreen(true);
  EXPECT_TRUE(changed());
  EXPECT_FALSE(changed()) << "it is told once";
  EXPECT_TRUE(with_process([](ProcessGate& p) { return p.Info().off_screen && !p.Draws(); }));
  agent.ReportOffScreen(false);
  EXPECT_TRUE(changed());
  EXPECT_TRUE(with_process([](ProcessGate& p) { return p.Draws(); }));
}

TEST_F(Gate, AnAgentsEndIsNoticed) {
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
  agent.Describe(proto::MeterKind::kWallClock, "before it is attached");
  ASSERT_TRUE(Attach(agent));
  const auto info = [this] {
    return host().With([](VgpuGate& gate) { return gate.processes().begin()->second->Info(); });
  };
  EXPECT_EQ(info().meter, proto::MeterKind::kWallClock);
  EXPECT_EQ(info().renderer, "before it is attached");
  agent.Describe(proto::MeterKind::kTimerQuery, "A renderer with a rather long name");
  agent.Describe(proto::MeterKind::kWorkerCpuTime, "llvmpipe \"x\"\n");
  EXPECT_EQ(info().meter, proto::MeterKind::kWorkerCpuTime);
  EXPECT_EQ(info().renderer, "llvmpipe \"x\"?");
  agent.Describe(proto::MeterKind::kTimerQuery, std::string(500, 'r').c_str());
  EXPECT_EQ(info().renderer, std::string(127, 'r'));
}

TEST_F(Gate, CreatingAGateKeepsAnotherDaemonsSocket) {
  const auto second = VgpuGate::Make(VgpuId{2}, path_, ::geteuid(), {}, platform::NowNs());
  EXPECT_EQ(CodeOf(second), Errc::kBusy);
  Agent agent = MakeAgent();
  EXPECT_TRUE(Attach(agent)) << agent.last_error();
}

TEST_F(Gate, CreatingAGateKeepsAnExistingFile) {
  ASSERT_TRUE(platform::WriteFileAtomically(folder_ / "file", "precious"));
  EXPECT_EQ(CodeOf(VgpuGate::Make(VgpuId{2}, folder_ / "file", 0, {}, platform::NowNs())), Errc::kAlreadyExists);
  const auto content = platform::ReadFile(folder_ / "file", 100);
  ASSERT_TRUE(content);
  EXPECT_EQ(*content, "precious");
}

TEST_F(Gate, AnotherUserIsRefusedWithTheReason) {
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

// The client sends its Hello before, while or after the daemon refuses it.
TEST_F(Gate, EveryStrangerCanReadItsRefusal) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  Child stranger([this] {
    if (::setuid(65'534) != 0) return 2;
    for (int round = 0; round < 2'000; ++round) {
      RawClient client(path_);
      for (int turn = 0; turn < round % 4; ++turn) ::sched_yield();
      static_cast<void>(client.Send(proto::AttachMessage{RawClient::GoodHello()}));  // fails if it is closed already
      const auto answer = client.Receive();
      if (!answer || !std::holds_alternative<proto::Refusal>(*answer)) return 1;
    }
    return 0;
  });
  EXPECT_EQ(stranger.Wait(), 0);
}

TEST_F(Gate, AnotherUserIsRefusedBeforeItSendsAnything) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  Child stranger([this] {
    if (::setuid(65'534) != 0) return 2;
    const RawClient silent(path_);
    for (;;) ::pause();
    return 1;
  });
  EXPECT_TRUE(WaitUntil([this] { return host().refused() > 0; }));
  EXPECT_EQ(host().last_refusal().code, Errc::kPermissionDenied);
  stranger.Kill();
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

}  // namespace
}  // namespace weir::gate
