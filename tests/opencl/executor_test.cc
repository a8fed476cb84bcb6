// SPDX-License-Identifier: Apache-2.0
// Objects, builds and commands of an executor on PoCL, whose client speaks the protocol by hand.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "platform/clock.h"
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

TEST_F(Executor, AnArgumentThatCouldNotBeSetFailsLaunchesUntilItIsSet) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  Launch(client, "twice", {kIn, kOut}, 8);
  const auto set = [&](std::uint32_t index, std::uint32_t object) {
    client.Send(wire::SetArg{.kernel = kKernel,
                             .index = index,
                             .kind = static_cast<std::uint8_t>(wire::ArgKind::kObject),
                             .object = object});
  };
  std::uint32_t event = 30;
  const auto launched = [&] {
    client.Send(wire::NdRange{
        .enqueue = {.queue = kQueue, .event = ++event}, .kernel = kKernel, .dimensions = 1, .global = {8, 0, 0}});
    return client.EndOf(event);
  };
  set(0, 99);
  set(1, kOut);
  EXPECT_EQ(launched(), CL_INVALID_MEM_OBJECT) << "the kernel would run with the buffer before";
  set(0, kIn);
  EXPECT_EQ(launched(), CL_COMPLETE);
  set(5'000, kIn);
  set(0, kIn);
  EXPECT_EQ(launched(), CL_INVALID_ARG_INDEX);
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

// PoCL 3.1 fails the marker although the fill before it has not ended.
TEST_F(Executor, AFinishWaitsForCommandsBeforeOneThatFails) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  const std::uint32_t held = 40, fails = 41;
  for (const std::uint32_t event : {held, fails}) client.Send(wire::CreateUserEvent{.id = event, .context = kContext});
  client.Send(wire::FillBuffer{.enqueue = {.queue = kQueue, .event = 42, .waits = wire::IdList(&held, 1)},
                               .buffer = kIn,
                               .size = 4096,
                               .pattern = wire::BytesOf("abcd")});
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 43, .waits = wire::IdList(&fails, 1)}});
  client.Send(wire::Finish{.request = 100, .queue = kQueue});
  client.Send(wire::SetUserEvent{.id = fails, .status = -5});
  EXPECT_LT(client.EndOf(43), 0);
  client.Send(wire::Finish{.request = 101, .queue = kQueue});
  client.Send(wire::ImageFormats{.request = 102});
  client.AnswerTo(102);
  for (const std::uint32_t finish : {100U, 101U})
    EXPECT_EQ(client.AnswerTo(finish, Duration{0}).status, RawClient::Answer{}.status) << finish;
  client.Send(wire::SetUserEvent{.id = held, .status = CL_COMPLETE});
  for (const std::uint32_t finish : {100U, 101U}) EXPECT_EQ(client.AnswerTo(finish).status, CL_SUCCESS);
  EXPECT_EQ(std::memcmp(client.arena(), "abcd", 4), 0);
}

// PoCL 3.1 lets a command after one that has failed run before those that came earlier.
TEST_F(Executor, ACommandAfterOneThatHasFailedWaitsForThoseBefore) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  const std::uint32_t held = 40, fails = 41;
  for (const std::uint32_t event : {held, fails}) client.Send(wire::CreateUserEvent{.id = event, .context = kContext});
  const auto fill = [&](const wire::Enqueue& enqueue, std::string_view pattern) {
    client.Send(wire::FillBuffer{.enqueue = enqueue, .buffer = kIn, .size = 4096, .pattern = wire::BytesOf(pattern)});
  };
  fill({.queue = kQueue, .event = 42, .waits = wire::IdList(&held, 1)}, "abcd");
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 43, .waits = wire::IdList(&fails, 1)}});
  client.Send(wire::SetUserEvent{.id = fails, .status = -5});
  EXPECT_LT(client.EndOf(43), 0);
  fill({.queue = kQueue, .event = 44}, "efgh");
  client.Send(wire::Watch{.event = 44});
  client.Send(wire::Watch{.event = 42});
  ::usleep(20'000);  // it may run, but must not
  client.Send(wire::SetUserEvent{.id = held, .status = CL_COMPLETE});
  EXPECT_EQ(client.EndOf(44), CL_COMPLETE);
  EXPECT_EQ(client.EndOf(42), CL_COMPLETE);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_EQ(std::memcmp(client.arena(), "efgh", 4), 0);
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
  EXPECT_TRUE(testing::WaitUntil([&] { return resident() < before + (32 << 20); })) << resident() - before;
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

TEST_F(Executor, NothingWaitsForAReleasedUserEvent) {
  RawClient client = Connected();
  Prepare(client);
  client.Send(wire::CreateUserEvent{.id = 40, .context = kContext});
  const std::uint32_t event = 40;
  client.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 41, .waits = wire::IdList(&event, 1)}});
  client.Send(wire::Release{.id = 40});
  EXPECT_NE(client.EndOf(41, seconds(5)), -9999);
}

}  // namespace
}  // namespace weir
