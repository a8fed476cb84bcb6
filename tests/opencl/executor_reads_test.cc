// SPDX-License-Identifier: Apache-2.0
// Reads of an executor's clients, on PoCL: when their end is reported, and where their bytes are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/opencl/executor_process.h"

namespace weir {
namespace {

namespace wire = proto::cl;
using namespace testing::raw;
using testing::BodyAs;
using testing::RawClient;
using Executor = testing::ExecutorProcess;

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

}  // namespace
}  // namespace weir
