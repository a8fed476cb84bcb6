// SPDX-License-Identifier: Apache-2.0
// Who may be served by an executor on PoCL, what is charged, and when the executor ends.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/unix_socket.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"
#include "tests/opencl/executor_process.h"

namespace weir {
namespace {

namespace wire = proto::cl;
using namespace testing::raw;
using testing::RawClient;
using Executor = testing::ExecutorProcess;

TEST_F(Executor, EndsWithoutClients) {
  // A kernel that never ends: its client goes, and nothing but the process's end can free its memory.
  {
    RawClient client = Connected();
    Prepare(client);
    MakeBuffer(client, kOut, 0);
    Launch(client, "endless", {kOut}, 1);
    client.Send(wire::Flush{.queue = kQueue});
    ::usleep(300'000);
  }
  EXPECT_EQ(Await(), 0);
}

class ExecutorWithATimeout : public Executor {
 protected:
  void SetUp() override { Start({"--kernel-timeout", "1"}); }
};
TEST_F(ExecutorWithATimeout, EndsWhenAKernelDoesNot) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  Launch(client, "endless", {kOut}, 1);
  client.Send(wire::Flush{.queue = kQueue});
  EXPECT_TRUE(client.Gone());
  EXPECT_EQ(Await(), 3);
}
TEST_F(ExecutorWithATimeout, EndsWhenAKernelDoesNotAlthoughCommandsOfAnotherQueueEnd) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  MakeBuffer(client, kIn, kBytes);
  constexpr std::uint32_t kOtherQueue = 77, kShort = 78;
  client.Send(wire::CreateQueue{.id = kOtherQueue, .context = kContext, .device = kDevice});
  Launch(client, "endless", {kOut}, 1);
  client.Send(wire::Flush{.queue = kQueue});
  std::thread others([&] {
    for (std::uint32_t i = 0; !client.Gone(milliseconds(1)); ++i) {
      LaunchIn(kOtherQueue, kShort + i, client, "twice", {kIn, kIn}, 1);
      client.Send(wire::Flush{.queue = kOtherQueue});
      ::usleep(20'000);
    }
  });
  EXPECT_EQ(Await(), 3);
  others.join();
}
TEST_F(Executor, ACrashEndsItAndTheClientSeesIt) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  Launch(client, "crash", {kOut}, 1);
  client.Send(wire::Flush{.queue = kQueue});
  EXPECT_TRUE(client.Gone());
  EXPECT_EQ(Await(), -SIGSEGV);
}

class ExecutorWithABuildTimeout : public Executor {
 protected:
  void SetUp() override { Start({"--build-timeout", "1"}); }
};
TEST_F(ExecutorWithABuildTimeout, EndsWhenABuildDoesNot) {
  RawClient client = Connected();
  const std::uint32_t device = kDevice;
  client.Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
  // Macros that double 22 times: four million statements.
  std::string source = "#define A0 v = v * 3 + get_global_id(0);\n";
  for (int i = 1; i <= 22; ++i) {
    const std::string before = " A" + std::to_string(i - 1);
    source += "#define A" + std::to_string(i) + before + before + "\n";
  }
  source += "kernel void k(global ulong* o) { ulong v = 0; A22 o[0] = v; }";
  client.Send(wire::CreateProgram{.id = 90, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(source))});
  client.Send(wire::Build{.request = 90, .program = 90});
  EXPECT_TRUE(client.Gone(seconds(60)));
  EXPECT_EQ(Await(), 4);
}

TEST_F(Executor, SilentConnectionsBlockNoOther) {
  Connected();  // it listens
  std::vector<platform::Fd> silent;
  for (int i = 0; i < 600; ++i) {
    auto connection = platform::ConnectSeqPacket(folder_ + "/s");
    while (!connection && connection.error().code == Errc::kTimeout) {  // its backlog is full for a moment
      ::usleep(1'000);
      connection = platform::ConnectSeqPacket(folder_ + "/s");
    }
    ASSERT_TRUE(connection) << connection.error().message;
    silent.push_back(std::move(*connection));
  }
  const auto victim = opencl::Connect(folder_ + "/s", "victim");
  EXPECT_TRUE(victim) << victim.error().message;
}

TEST_F(ExecutorWithATimeout, AnUnsetEventDoesNotExtendAKernelsTime) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  client.Send(wire::CreateUserEvent{.id = 40, .context = kContext});
  Launch(client, "endless", {kOut}, 1);
  client.Send(wire::Flush{.queue = kQueue});
  EXPECT_TRUE(client.Gone());
  EXPECT_EQ(Await(), 3);
}

TEST_F(ExecutorWithATimeout, ACommandThatWaitsForTheClientDoesNotTimeOut) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  const std::uint32_t user_event = 40;
  client.Send(wire::CreateUserEvent{.id = user_event, .context = kContext});
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 41, .waits = wire::IdList(&user_event, 1)}});
  client.Send(wire::Flush{.queue = kQueue});
  ::usleep(1'500'000);  // longer than the timeout
  client.Send(wire::SetUserEvent{.id = user_event, .status = CL_COMPLETE});
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
}

class ExecutorWithAGate : public Executor {
 protected:
  void SetUp() override { Start({"--attach", gates_ / "gate"}); }
  testing::TempFolder gates_;
};
TEST_F(ExecutorWithAGate, ServesNoClientBeforeItIsAttached) {
  std::string said;
  ASSERT_TRUE(testing::WaitUntil([&] {  // it is being started and does not listen yet
    const auto connection = opencl::Connect(folder_ + "/s", "early");
    if (!connection) said = connection.error().message;
    return connection || connection.error().code == Errc::kPermissionDenied;
  }));
  EXPECT_NE(said.find("is not attached to the gate of its vGPU"), std::string::npos) << said;
  const testing::GateHost gate(gates_ / "gate");
  EXPECT_TRUE(testing::WaitUntil([&] { return opencl::Connect(folder_ + "/s", "later").has_value(); }));
}

TEST_F(ExecutorWithAGate, ALongKernelIsChargedWhileItRuns) {
  testing::GateHost gate(gates_ / "gate");
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  Launch(client, "endless", {kOut}, 1);
  client.Send(wire::Flush{.queue = kQueue});
  // On entry no more than 100 ms are reserved, whatever is foreseen.
  EXPECT_TRUE(testing::WaitUntil([&] { return gate.AllowanceNs() < -300'000'000; })) << gate.AllowanceNs();
  EXPECT_EQ(gate.InFlight(), 1U);
}

}  // namespace
}  // namespace weir
