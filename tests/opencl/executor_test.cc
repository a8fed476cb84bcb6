// SPDX-License-Identifier: Apache-2.0
// The executor as a process, on PoCL, against a client that speaks the protocol by hand.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "platform/spawn.h"
#include "platform/unix_socket.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"
#include "tests/opencl/executor_process.h"

namespace weir {
namespace {

namespace wire = proto::cl;
using namespace testing::raw;
using testing::BodyAs;
using testing::RawClient;
using Executor = testing::ExecutorProcess;

TEST_F(Executor, RunsAKernelInTheArena) {
  RawClient client = Connected();
  const auto facts = BodyAs<wire::PlatformFacts>(client.AnswerTo(0).body);
  ASSERT_EQ(facts.devices.size(), 1U);
  EXPECT_EQ(facts.devices[0].shares_arena, 1);
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  for (int i = 0; i < 1000; ++i) reinterpret_cast<int*>(client.arena())[i] = i;
  Launch(client, "twice", {kIn, kOut}, 1000);
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(reinterpret_cast<int*>(client.arena() + kBytes)[i], 2 * i);
}

TEST_F(Executor, ReportsTheTimesOfACommand) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  client.Send(
      wire::CreateQueue{.id = 33, .context = kContext, .device = kDevice, .properties = CL_QUEUE_PROFILING_ENABLE});
  client.Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "twice"});
  for (const std::uint32_t index : {0U, 1U})
    client.Send(wire::SetArg{.kernel = kKernel, .index = index, .kind = 1, .object = index == 0 ? kIn : kOut});
  const auto before = static_cast<std::uint64_t>(platform::NowNs());
  client.Send(
      wire::NdRange{.enqueue = {.queue = 33, .event = 34}, .kernel = kKernel, .dimensions = 1, .global = {1000, 0, 0}});
  ASSERT_EQ(client.EndOf(34), CL_COMPLETE);
  const wire::EventDone done = client.Ended(34);
  // The device's clock is another one; it is known to some fraction of a millisecond.
  EXPECT_LE(before, done.queued_ns + 5'000'000);
  EXPECT_LE(done.queued_ns, done.submit_ns);
  EXPECT_LE(done.submit_ns, done.start_ns);
  EXPECT_LT(done.start_ns, done.end_ns);
  EXPECT_LE(done.end_ns, static_cast<std::uint64_t>(platform::NowNs()));
}

TEST_F(Executor, ReportsTheResultOfABuild) {
  RawClient client = Connected();
  Prepare(client);
  client.Send(wire::CreateProgram{
      .id = 20,
      .context = kContext,
      .source = wire::Blob::Inline(wire::BytesOf("kernel void k(int n, global float4* a, local int* s) {}"))});
  client.Send(wire::Build{.request = 2, .program = 20});
  const auto facts = BodyAs<wire::BuildFacts>(client.AnswerTo(2).body);
  ASSERT_EQ(facts.kernels.size(), 1U);
  EXPECT_EQ(facts.kernels[0].name, "k");
  ASSERT_EQ(facts.kernels[0].args.size(), 3U);
  EXPECT_EQ(facts.kernels[0].args[0].type, "int");
  EXPECT_EQ(facts.kernels[0].args[1].address, static_cast<std::uint32_t>(CL_KERNEL_ARG_ADDRESS_GLOBAL));
  EXPECT_EQ(facts.kernels[0].args[2].address, static_cast<std::uint32_t>(CL_KERNEL_ARG_ADDRESS_LOCAL));

  client.Send(wire::CreateProgram{
      .id = 21, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf("kernel void k( {"))});
  client.Send(wire::Build{.request = 3, .program = 21});
  const auto answer = client.AnswerTo(3);
  EXPECT_EQ(answer.status, CL_BUILD_PROGRAM_FAILURE);
  const auto failed = BodyAs<wire::BuildFacts>(answer.body);
  ASSERT_EQ(failed.devices.size(), 1U);
  EXPECT_NE(failed.devices[0].log.find("error"), std::string::npos);
}

TEST_F(Executor, FindsIncludedFiles) {
  RawClient client = Connected();
  Prepare(client);
  client.Send(wire::CreateProgram{
      .id = 20,
      .context = kContext,
      .source = wire::Blob::Inline(
          wire::BytesOf("#include \"../common/three.h\"\nkernel void k(global int* a) { a[0] = THREE; }"))});
  wire::Build build{.request = 2, .program = 20};
  build.headers.push_back(
      {.name = "../common/three.h", .content = wire::Blob::Inline(wire::BytesOf("#define THREE 3\n"))});
  client.Send(build);
  EXPECT_EQ(client.AnswerTo(2).status, CL_SUCCESS);
  build.request = 3;
  build.headers[0].name = "../../../../../../../../../../../../tmp/weir-escaped.h";
  client.Send(build);
  EXPECT_NE(client.AnswerTo(3).status, CL_SUCCESS);
  EXPECT_FALSE(std::filesystem::exists("/tmp/weir-escaped.h"));
}

TEST_F(Executor, AnErrorStaysWhereItBelongs) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, client.arena_bytes() - 4096);  // beyond the arena
  Launch(client, "twice", {kIn, kOut}, 8, 30);
  EXPECT_LT(client.EndOf(30), 0);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);  // the event has told
  Launch(client, "twice", {kIn, kOut}, 8);
  EXPECT_NE(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_FALSE(client.notices.empty());
}

TEST_F(Executor, ForeignAndForgedIdsFailAndHarmNothing) {
  RawClient client = Connected();
  Prepare(client);
  for (const std::uint32_t id : {0U, 1U, 3U, 999U, 0xFFFFFFFFU}) {
    client.Send(wire::CreateBuffer{.id = 50, .context = id, .size = 64});
    client.Send(wire::CopyBuffer{.enqueue = {.queue = id}, .from = id, .to = id, .size = 4});
    client.Send(wire::SetArg{.kernel = id, .kind = 1, .object = id});
    client.Send(wire::SetUserEvent{.id = id, .status = 0});
    client.Send(wire::Flush{.queue = id});
  }
  client.Send(wire::CreateBuffer{.id = 0xFFFFFFFF, .context = kContext, .size = 64});
  client.Send(wire::Release{.id = 0xFFFFFFFF});
  EXPECT_NE(client.Finish(77), CL_SUCCESS);
  EXPECT_EQ(client.Finish(kQueue), CL_INVALID_MEM_OBJECT);  // of the copy on it; told once
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
}

TEST_F(Executor, MalformedBytesEndTheirConnectionAndNoOther) {
  RawClient other = Connected();
  Prepare(other);
  {
    RawClient client = Connected();
    std::vector<std::byte> bytes = wire::Encode(wire::NdRange{});
    bytes.resize(bytes.size() - 3);  // within a field
    const auto size = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &size, sizeof size);
    client.SendBytes(bytes);
    EXPECT_TRUE(client.Gone());
  }
  {
    RawClient client = Connected();
    const wire::Header unknown{8, 9999, 0};
    client.SendBytes(std::as_bytes(std::span(&unknown, 1)));
    EXPECT_TRUE(client.Gone());
  }
  {
    RawClient client = Connected();
    const wire::Header ignored{8, 9999, wire::kMayIgnore};
    client.SendBytes(std::as_bytes(std::span(&ignored, 1)));
    Prepare(client);
  }
  EXPECT_EQ(other.Finish(kQueue), CL_SUCCESS);
}

TEST_F(Executor, ARangeIsFreeAfterItsLastCommand) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  Launch(client, "twice", {kIn, kOut}, 1000);
  client.Send(wire::Release{.id = kIn, .ticket = 5});
  client.Send(wire::Release{.id = kOut, .ticket = 6});
  EXPECT_TRUE(client.Freed(5));
  EXPECT_TRUE(client.Freed(6));
  MakeBuffer(client, kIn, 0);  // never used
  client.Send(wire::Release{.id = kIn, .ticket = 7});
  EXPECT_TRUE(client.Freed(7));
}

// A driver takes what stands where a buffer is wanted for a pointer of its own.
TEST_F(Executor, BytesAreNotABuffer) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  Launch(client, "twice", {kIn, kOut}, 8);
  const std::uint64_t forged = 0x10;
  client.Send(wire::SetArg{.kernel = kKernel,
                           .index = 0,
                           .kind = static_cast<std::uint8_t>(wire::ArgKind::kData),
                           .data = std::as_bytes(std::span(&forged, 1))});
  client.Send(wire::NdRange{
      .enqueue = {.queue = kQueue, .event = 31}, .kernel = kKernel, .dimensions = 1, .global = {8, 0, 0}});
  EXPECT_EQ(client.EndOf(31), CL_INVALID_ARG_VALUE);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
}

TEST_F(Executor, AnEventWithTheIdOfItsQueueTakesItsPlace) {
  RawClient client = Connected();
  Prepare(client);
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = kQueue}});
  EXPECT_EQ(client.EndOf(kQueue), CL_COMPLETE);
  EXPECT_EQ(client.Finish(kQueue), CL_INVALID_COMMAND_QUEUE);
}

TEST_F(Executor, CommandsAfterAReplacedUserEventEnd) {
  RawClient client = Connected();
  Prepare(client);
  const std::uint32_t user_event = 40;
  client.Send(wire::CreateUserEvent{.id = user_event, .context = kContext});
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 41, .waits = wire::IdList(&user_event, 1)}});
  client.Send(wire::CreateUserEvent{.id = user_event, .context = kContext});
  EXPECT_NE(client.EndOf(41, seconds(5)), -9999);
}

TEST_F(Executor, AKernelWithAReleasedBufferIsNotRun) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  Launch(client, "twice", {kIn, kOut}, 1000);
  client.Send(wire::Release{.id = kOut, .ticket = 6});
  client.Send(wire::NdRange{
      .enqueue = {.queue = kQueue, .event = 31}, .kernel = kKernel, .dimensions = 1, .global = {8, 0, 0}});
  EXPECT_EQ(client.EndOf(31), CL_INVALID_KERNEL_ARGS);
}

// More batches than may be in flight wait for an event that only a later message sets: waiting for them would be for
// ever.
TEST_F(Executor, DoesNotWaitForUserEvents) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  client.Send(wire::CreateUserEvent{.id = 40, .context = kContext});
  const std::uint32_t event = 40;
  for (std::uint32_t i = 0; i < 8; ++i) {
    client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 0, .waits = wire::IdList(&event, 1)}});
    Launch(client, "twice", {kIn, kOut}, 1000);
    client.Send(wire::Flush{.queue = kQueue});
  }
  client.Send(wire::SetUserEvent{.id = 40, .status = CL_COMPLETE});
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
}

// PoCL 3.1 fails commands that wait for a failed event, without a report.
TEST_F(Executor, AFinishEndsWhenWhatItWaitsForFails) {
  RawClient client = Connected();
  Prepare(client);
  const std::uint32_t user_event = 40;
  client.Send(wire::CreateUserEvent{.id = user_event, .context = kContext});
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 41, .waits = wire::IdList(&user_event, 1)}});
  client.Send(wire::Watch{.event = 41});
  client.Send(wire::Finish{.request = 100, .queue = kQueue});
  client.Send(wire::SetUserEvent{.id = user_event, .status = -5});
  EXPECT_EQ(client.AnswerTo(100).status, CL_SUCCESS);
  EXPECT_EQ(std::ranges::count(client.ended_in_order, 41U), 1);
}

TEST_F(Executor, ADisconnectedClientsMemoryIsFreed) {
  RawClient watcher = Connected();
  Prepare(watcher);
  const auto resident = [this] {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
    std::uint64_t size = 0, pages = 0;
    file >> size >> pages;
    return pages * 4096;
  };
  const std::uint64_t before = resident();
  {
    RawClient client = Connected();
    Prepare(client);
    constexpr std::uint64_t kBig = 256 << 20;
    MakeBuffer(client, kIn, 0, kBig);
    client.Send(
        wire::FillBuffer{.enqueue = {.queue = kQueue}, .buffer = kIn, .size = kBig, .pattern = wire::BytesOf("abcd")});
    ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
    EXPECT_GT(resident(), before + kBig / 2);
    // A batch that never begins.
    const std::uint32_t user_event = 40;
    client.Send(wire::CreateUserEvent{.id = user_event, .context = kContext});
    client.Send(wire::FillBuffer{.enqueue = {.queue = kQueue, .event = 0, .waits = wire::IdList(&user_event, 1)},
                                 .buffer = kIn,
                                 .size = kBig,
                                 .pattern = wire::BytesOf("abcd")});
    client.Send(wire::Flush{.queue = kQueue});
  }
  for (int i = 0; i < 100 && resident() > before + (32 << 20); ++i) ::usleep(10'000);
  EXPECT_LT(resident(), before + (32 << 20));
}

TEST_F(Executor, OnlyAClientThatDoesNotReadWaits) {
  RawClient other = Connected();
  Prepare(other);
  RawClient client = Connected();
  Prepare(client);
  for (std::uint32_t i = 0; i < 60'000; ++i) {
    const std::vector<std::byte> finish = wire::Encode(wire::Finish{.request = 100 + i, .queue = kQueue});
    while (client.connection().channel.out.Reserve(finish.size()) == nullptr)
      client.connection().channel.out.WaitForRoom(finish.size(), milliseconds(100));
    client.SendBytes(finish);
  }
  EXPECT_EQ(other.Finish(kQueue), CL_SUCCESS);
  EXPECT_EQ(client.AnswerTo(100).status, CL_SUCCESS);
  EXPECT_EQ(client.AnswerTo(100 + 59'999).status, CL_SUCCESS);
}

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
TEST_F(ExecutorWithATimeout, ACrashEndsTheExecutorAndTheClientSeesIt) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  Launch(client, "crash", {kOut}, 1);
  client.Send(wire::Flush{.queue = kQueue});
  EXPECT_TRUE(client.Gone());
  EXPECT_EQ(Await(), -SIGSEGV);
}

/// Memory that was freed reads as rubbish, so that who uses it is found.
class ExecutorWithParts : public Executor {
 protected:
  static constexpr std::uint32_t kPart = 10, kOtherPart = 11;
  void SetUp() override {
    ::setenv("MALLOC_PERTURB_", "165", 1);
    Start({});
    ::unsetenv("MALLOC_PERTURB_");
  }
  /// A context of two parts, with a queue on the first.
  void PrepareParts(RawClient& client) {
    constexpr std::uint64_t kEqually[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    constexpr std::uint32_t kParts[] = {kPart, kOtherPart};
    client.Send(wire::CreateSubDevices{.request = 5, .device = kDevice, .first = kPart, .properties = {kEqually, 3}});
    const auto made = BodyAs<wire::SubDeviceFacts>(client.AnswerTo(5).body);
    ASSERT_EQ(made.devices.size(), 2U);
    client.Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(kParts, 2)});
    client.Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kPart});
    client.Send(
        wire::CreateProgram{.id = kProgram, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(kSource))});
    client.Send(wire::Build{.request = 1, .program = kProgram});
  }
};

TEST_F(ExecutorWithParts, NamesThemInTheResultOfABuild) {
  RawClient client = Connected();
  PrepareParts(client);
  const auto facts = BodyAs<wire::BuildFacts>(client.AnswerTo(1).body);
  ASSERT_EQ(facts.devices.size(), 2U);
  EXPECT_EQ(facts.devices[0].device, kPart);
  EXPECT_EQ(facts.devices[1].device, kOtherPart);
  EXPECT_EQ(facts.devices[1].status, CL_BUILD_SUCCESS);
  ASSERT_FALSE(facts.kernels.empty());
  ASSERT_EQ(facts.kernels[0].groups.size(), 2U);
  EXPECT_EQ(facts.kernels[0].groups[1].device, kOtherPart);
  EXPECT_GT(facts.kernels[0].groups[1].size, 0U);
  client.Send(wire::GetBinary{.request = 2, .program = kProgram, .device = kOtherPart});
  const auto binary = client.AnswerTo(2);
  EXPECT_EQ(binary.status, CL_SUCCESS);
  EXPECT_EQ(binary.body.size(), facts.devices[1].binary_size);
}

TEST_F(ExecutorWithParts, KeepsThemWhileTheyAreUsed) {
  RawClient other = Connected();
  Prepare(other);
  for (const bool released : {false, true}) {
    RawClient client = Connected();
    PrepareParts(client);
    ASSERT_EQ(client.AnswerTo(1).status, CL_SUCCESS);
    MakeBuffer(client, kIn, 0);
    MakeBuffer(client, kOut, kBytes);
    if (released) {
      client.Send(wire::Release{.id = kPart});
      client.Send(wire::Release{.id = kOtherPart});
    }
    Launch(client, "twice", {kIn, kOut}, 1000, 30);
    ASSERT_EQ(client.EndOf(30), CL_COMPLETE);
    if (released) client.Send(wire::Release{.id = kContext});
    client.Send(wire::Release{.id = kQueue});
    client.Send(wire::Release{.id = 30});
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(other.Finish(kQueue), CL_SUCCESS);
    ::usleep(10'000);
  }
}

TEST_F(ExecutorWithParts, WaitsForCommandsOfAReleasedQueue) {
  RawClient other = Connected();
  Prepare(other);
  for (const bool parts : {false, true}) {
    RawClient client = Connected();
    parts ? PrepareParts(client) : Prepare(client);
    MakeBuffer(client, kOut, 0);
    Launch(client, "slow", {kOut}, 1);
    for (const std::uint32_t id : {kOut, kQueue, kKernel, kProgram, kContext, kPart, kOtherPart})
      client.Send(wire::Release{.id = id});
    // Whatever else comes is carried out after that.
    client.Send(wire::Finish{.request = 9, .queue = kQueue});
    EXPECT_EQ(client.AnswerTo(9).status, CL_INVALID_COMMAND_QUEUE);
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(other.Finish(kQueue), CL_SUCCESS) << i;
    ::usleep(10'000);
  }
}

// A client copies what a read brought when it hears of the read's end. Who waits for the marker only relies on that.
TEST_F(Executor, AReadIsReportedBeforeItsDependents) {
  RawClient client = Connected();
  Prepare(client);
  constexpr std::uint32_t kOther = 8;
  client.Send(wire::CreateQueue{.id = kOther, .context = kContext, .device = kDevice});
  MakeBuffer(client, kIn, 0);
  for (std::uint32_t round = 0; round < 3000; ++round) {
    const std::uint32_t read = 100 + 4 * round, between = read, marker = read + 2, start = read + 3;
    client.Send(wire::CreateUserEvent{.id = start, .context = kContext});
    client.Send(wire::ReadBuffer{.enqueue = {.queue = kQueue, .event = read, .waits = wire::IdList(&start, 1)},
                                 .buffer = kIn,
                                 .size = 4096,
                                 .to = kBytes});
    client.Send(wire::Watch{.event = read});
    client.Send(wire::Marker{.enqueue = {.queue = kOther, .event = marker, .waits = wire::IdList(&between, 1)}});
    client.Send(wire::Watch{.event = marker});
    client.Send(wire::Flush{.queue = kQueue});
    client.Send(wire::SetUserEvent{.id = start});
    ASSERT_EQ(client.EndOf(marker), CL_COMPLETE);
    ASSERT_EQ(std::ranges::count(client.ended_in_order, read), 1) << "in round " << round;
  }
}

TEST_F(Executor, NothingWaitsForAReleasedUserEvent) {
  RawClient client = Connected();
  Prepare(client);
  client.Send(wire::CreateUserEvent{.id = 40, .context = kContext});
  const std::uint32_t event = 40;
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 41, .waits = wire::IdList(&event, 1)}});
  client.Send(wire::Release{.id = 40});
  EXPECT_NE(client.EndOf(41, seconds(5)), -9999);
}

class ExecutorThatCopies : public Executor {
 protected:
  void SetUp() override { Start({"--copies"}); }
};
TEST_F(ExecutorThatCopies, KeepsTheBuffersApartFromTheArena) {
  RawClient client = Connected();
  EXPECT_EQ(BodyAs<wire::PlatformFacts>(client.AnswerTo(0).body).devices.at(0).shares_arena, 0);
  Prepare(client);
  std::memset(client.arena(), 7, kBytes);
  client.Send(wire::CreateBuffer{
      .id = kIn, .context = kContext, .flags = CL_MEM_READ_WRITE, .size = kBytes, .offset = 0, .filled = 1});
  MakeBuffer(client, kOut, kBytes);
  Launch(client, "twice", {kIn, kOut}, 1000);
  client.Send(wire::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = kOut, .size = 4000, .to = 2 * kBytes});
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_EQ(reinterpret_cast<int*>(client.arena() + 2 * kBytes)[999], 2 * 0x07070707);
  EXPECT_EQ(reinterpret_cast<int*>(client.arena() + kBytes)[999], 0);
}

// A remote client doesn't see the arena. It hears of a read's end by the read's own event, by the queue's finish, or
// by whatever waited for it.
TEST_F(Executor, AReadsDataIsAnnouncedBeforeItsEnd) {
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  RawClient client = Connected(/*remote=*/true);
  EXPECT_EQ(BodyAs<wire::PlatformFacts>(client.AnswerTo(0).body).devices[0].shares_arena, 0);
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  client.Send(
      wire::FillBuffer{.enqueue = {.queue = kQueue}, .buffer = kIn, .size = 4096, .pattern = wire::BytesOf("x")});
  const auto read = [&](std::uint32_t queue, std::uint64_t size, std::uint32_t event, wire::IdList waits = {}) {
    client.Send(wire::ReadBuffer{
        .enqueue = {.queue = queue, .event = event, .waits = waits}, .buffer = kIn, .size = size, .to = 2 * kBytes});
  };
  read(kQueue, 100, 0);
  read(kQueue, 200, 0);
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_EQ(client.arrived, (Ranges{{2 * kBytes, 100}, {2 * kBytes, 200}}));
  EXPECT_EQ(client.arena()[2 * kBytes + 199], std::byte{'x'});

  client.arrived.clear();
  constexpr std::uint32_t kLoose = 40, kUser = 41, kRead = 42, kAfter = 43;
  client.Send(wire::CreateQueue{
      .id = kLoose, .context = kContext, .device = kDevice, .properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE});
  client.Send(wire::CreateUserEvent{.id = kUser, .context = kContext});
  read(kLoose, 300, kRead, wire::IdList(&kUser, 1));
  read(kLoose, 400, 0);  // overtakes it
  client.Send(wire::Marker{.enqueue = {.queue = kLoose, .event = kAfter, .waits = wire::IdList(&kRead, 1)}});
  read(kQueue, 500, 0);
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_TRUE(std::ranges::count(client.arrived, std::pair{2 * kBytes, std::uint64_t{500}}) == 1);
  EXPECT_TRUE(std::ranges::count(client.arrived, std::pair{2 * kBytes, std::uint64_t{300}}) == 0) << "it waits";
  client.Send(wire::SetUserEvent{.id = kUser, .status = CL_COMPLETE});
  ASSERT_EQ(client.EndOf(kAfter), CL_COMPLETE);
  EXPECT_TRUE(std::ranges::count(client.arrived, std::pair{2 * kBytes, std::uint64_t{300}}) == 1);
  ASSERT_EQ(client.Finish(kLoose), CL_SUCCESS);
  EXPECT_EQ(client.arrived.size(), 3U) << "once each";
}

// On a device that works in host memory nothing is moved for a read whose caller waits: it is sent from the buffer.
TEST_F(Executor, ABlockingReadIsSentFromItsBuffer) {
  constexpr std::uint32_t kPart = 40, kLoose = 41;
  RawClient client = Connected(/*remote=*/true);
  Prepare(client);
  const platform::Mapping& buffers = client.connection().buffers;
  ASSERT_TRUE(buffers) << "PoCL's device works in host memory";
  std::memset(client.arena() + kBytes, 7, kBytes);
  client.Send(wire::CreateBuffer{
      .id = kIn, .context = kContext, .flags = CL_MEM_READ_WRITE, .size = kBytes, .offset = kBytes, .filled = 1});
  client.Send(wire::CreateSubBuffer{.id = kPart, .parent = kIn, .origin = 4096, .size = 4096});
  client.Send(wire::CreateQueue{
      .id = kLoose, .context = kContext, .device = kDevice, .properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE});
  client.Send(
      wire::FillBuffer{.enqueue = {.queue = kQueue}, .buffer = kPart, .size = 4096, .pattern = wire::BytesOf("x")});
  const auto read = [&](std::uint32_t queue, std::uint32_t buffer, std::uint64_t offset, std::uint8_t waited) {
    client.arrivals.clear();
    client.Send(wire::ReadBuffer{.enqueue = {.queue = queue},
                                 .buffer = buffer,
                                 .offset = offset,
                                 .size = 100,
                                 .to = 2 * kBytes,
                                 .waited = waited});
    EXPECT_EQ(client.Finish(queue), CL_SUCCESS);
    EXPECT_EQ(client.arrivals.size(), 1U);
    return client.arrivals.empty() ? wire::Arrived{} : client.arrivals[0];
  };
  wire::Arrived arrived = read(kQueue, kIn, 4096 - 50, 1);
  EXPECT_EQ(arrived.in_buffers, 1);
  EXPECT_EQ(arrived.offset, 2 * kBytes);
  ASSERT_EQ(arrived.from, kBytes + 4096 - 50);
  EXPECT_EQ(buffers.As<std::byte>()[arrived.from + 49], std::byte{7}) << "its first content";
  EXPECT_EQ(buffers.As<std::byte>()[arrived.from + 50], std::byte{'x'});
  EXPECT_EQ(client.arena()[2 * kBytes + 50], std::byte{0}) << "not moved";
  EXPECT_EQ(client.arena()[kBytes + 4096], std::byte{7}) << "the range is the client's";

  arrived = read(kQueue, kPart, 10, 1);
  EXPECT_EQ(arrived.in_buffers, 1);
  EXPECT_EQ(arrived.from, kBytes + 4096 + 10);

  for (const auto& [queue, waited] : {std::pair{kQueue, 0}, {kLoose, 1}}) {
    std::memset(client.arena() + 2 * kBytes, 0, 100);
    EXPECT_EQ(read(queue, kPart, 10, static_cast<std::uint8_t>(waited)).in_buffers, 0);
    EXPECT_EQ(client.arena()[2 * kBytes + 50], std::byte{'x'});
  }
}

TEST_F(Executor, ALocalClientsReadsGoToTheArena) {
  RawClient client = Connected();
  Prepare(client);
  EXPECT_FALSE(client.connection().buffers);
  MakeBuffer(client, kIn, 0);
  client.arena()[99] = std::byte{5};
  client.Send(
      wire::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = kIn, .size = 100, .to = 2 * kBytes, .waited = 1});
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_EQ(client.arena()[2 * kBytes + 99], std::byte{5});
  EXPECT_TRUE(client.arrivals.empty());
}

TEST_F(Executor, AFailedReadSendsNothing) {
  RawClient client = Connected(/*remote=*/true);
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  for (const std::uint8_t waited : {0, 1}) {
    client.Send(
        wire::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = kIn, .offset = kBytes, .size = 100, .waited = waited});
    EXPECT_NE(client.Finish(kQueue), CL_SUCCESS);
    client.Send(wire::ReadBuffer{
        .enqueue = {.queue = kQueue}, .buffer = kIn, .size = 100, .to = client.arena_bytes() - 99, .waited = waited});
    EXPECT_NE(client.Finish(kQueue), CL_SUCCESS);
  }
  EXPECT_TRUE(client.arrived.empty());
}

// -- Who may be served, and what is charged --------------------------------------------------------------------------

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
