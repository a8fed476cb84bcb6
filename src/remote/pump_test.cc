// SPDX-License-Identifier: Apache-2.0
// Both pumps against a stream that accepts and returns arbitrarily few bytes at a time.
#include "remote/pump.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <thread>

#include "proto/opencl_messages.h"
#include "tests/harness/code_of.h"
#include "tests/harness/pump_road.h"
#include "tests/harness/tls_pair.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;
using testing::kArenaBytes;
using testing::Lines;
using testing::Pipe;
using testing::ReceiveFrom;
using testing::Road;
using testing::SendTo;

TEST(Pump, MessagesArriveAsTheyWereInTheirOrder) {
  Road road(OutPump::Side::kClients);
  std::vector<std::vector<std::byte>> sent;
  for (std::uint32_t i = 1; i < 500; ++i) {
    const std::string text(i * 7 % 3000, static_cast<char>('a' + i % 26));
    sent.push_back(cl::Encode(cl::CreateKernel{.id = i, .program = 1, .name = text}));
  }
  std::thread client([&] {
    for (const auto& message : sent) SendTo(road.from.other, message);
  });
  for (const auto& message : sent) ASSERT_EQ(ReceiveFrom(road.to.other), message);
  client.join();
}

/// Records drain requests and drops messages.
class DrainRequestSink final : public Sink {
 public:
  Status Take(std::span<std::byte>) override { return Ok(); }
  Result<std::span<std::byte>> Room(std::uint64_t, std::size_t) override { return Fail(Errc::kProtocol, "none"); }
  Status MoveWanted(const std::string& why) override {
    asked.push_back(why);
    return Ok();
  }
  std::vector<std::string> asked;
};

TEST(Pump, ANodeSendsAndCancelsADrainRequest) {
  Pipe pipe(1 << 16, 3);
  const std::atomic<bool> stop{false};
  for (const std::string& why :
       {std::string("several are overloaded"), std::string(), std::string("\033[2J\177full"), std::string(1000, 'x')})
    ASSERT_TRUE(SendMoveWanted(pipe, why, stop));
  DrainRequestSink sink;
  InPump in(stop, pipe);
  for (int i = 0; i < 4; ++i) {
    const auto came = in.Step(sink, seconds(1));
    ASSERT_TRUE(came && *came);
  }
  EXPECT_EQ(sink.asked, (std::vector<std::string>{"several are overloaded", "", "?[2J?full", std::string(255, 'x')}));
}

TEST(Pump, ASendWithATimeLimitEndsWhenTheOtherSideReadsNothing) {
  Pipe pipe(100);
  const std::atomic<bool> stop{false};
  const std::string name(1000, 'x');
  const std::vector<std::vector<std::byte>> said{cl::Encode(cl::CreateKernel{.id = 1, .program = 1, .name = name})};
  EXPECT_EQ(testing::CodeOf(SendMessages(pipe, said, stop, milliseconds(20))), Errc::kTimeout);
  EXPECT_EQ(testing::CodeOf(SendContents(pipe, 0, said.front(), stop, milliseconds(20))), Errc::kTimeout);
}

TEST(Pump, OnlyAPortalMaySendADrainRequest) {
  Lines lines(opencl::Side::kClient);
  Pipe pipe;
  ASSERT_TRUE(SendMoveWanted(pipe, "go", lines.line.stop));
  LineSink sink(lines.line);
  InPump in(lines.line.stop, pipe);
  const auto taken = in.Step(sink, seconds(1));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kProtocol);
}

TEST(Pump, AStepBetweenMessagesFollowsAllEarlierOnes) {
  Road road(OutPump::Side::kClients);
  std::atomic<std::uint32_t> wanted{0}, done{0};
  road.between = [&] {
    const std::vector<std::vector<std::byte>> said{cl::Encode(cl::Flush{.queue = 1000 + wanted.load()})};
    EXPECT_TRUE(SendMessages(road.pipe, said, road.from.line.stop));
    done = wanted.load();
  };
  std::thread client([&] {
    for (std::uint32_t i = 1; i <= 2000; ++i) SendTo(road.from.other, cl::Encode(cl::Flush{.queue = i % 1000}));
  });
  std::thread errands([&] {
    for (std::uint32_t i = 1; i <= 20; ++i) {
      wanted = i;
      road.from.line.knock = true;
      road.from.line.channel.in.Interrupt();
      while (done != i) std::this_thread::yield();
    }
  });
  std::uint32_t messages = 0, between = 0;
  while (messages + between < 2020) {
    cl::Flush flush;
    ASSERT_TRUE(cl::Decode(ReceiveFrom(road.to.other), flush));
    if (flush.queue > 1000)
      ASSERT_EQ(flush.queue, 1000 + ++between);
    else
      ASSERT_EQ(flush.queue, ++messages % 1000);
  }
  client.join();
  errands.join();
}

TEST(Pump, ContentsArriveBeforeTheirMessage) {
  Road road(OutPump::Side::kClients);
  for (std::uint64_t round = 1; round <= 200; ++round) {
    const std::uint64_t offset = 4096 * (round % 16), size = 1 + 5000 * round % 60'000;
    std::memset(road.from.arena() + offset, static_cast<int>(round), size);
    SendTo(road.from.other, cl::Encode(cl::WriteBuffer{.buffer = 1, .content = cl::Blob::Arena(offset, size)}));
    ASSERT_FALSE(ReceiveFrom(road.to.other).empty());
    ASSERT_EQ(std::memcmp(road.from.arena() + offset, road.to.arena() + offset, size), 0) << "round " << round;
  }
}

TEST(Pump, AnArrivedPrecedesItsMessageAndIsNotForwarded) {
  Road road(OutPump::Side::kExecutors);
  for (std::uint64_t round = 1; round <= 200; ++round) {
    std::memset(road.from.arena() + 8192, static_cast<int>(round), 50'000);
    SendTo(road.from.other, cl::Encode(cl::Arrived{.offset = 8192, .size = 50'000}));
    const auto done = cl::Encode(cl::EventDone{.event = static_cast<std::uint32_t>(round)});
    SendTo(road.from.other, done);
    ASSERT_EQ(ReceiveFrom(road.to.other), done);
    ASSERT_EQ(road.to.arena()[8192 + 49'999], static_cast<std::byte>(round));
  }
}

/// Adds memory of buffers beside the arena, as a portal's executor has it.
void AddBuffers(Line& line) {
  auto buffers = platform::MakeSharedRegion("test-buffers", kArenaBytes);
  ASSERT_TRUE(buffers);
  line.buffers = std::move(buffers->mapping);
  line.buffers_file = std::move(buffers->fd);
}

TEST(Pump, BufferContentsArriveAtTheirPlaceInTheArena) {
  // Copied on the same machine; sent without a copy as to another machine
  for (const char* to : {"127.0.0.1", "127.0.0.2"}) {
    auto sockets = testing::ConnectedSockets(to);
    const auto here = net::AdoptTcp(std::move(sockets.client)), there = net::AdoptTcp(std::move(sockets.server));
    Lines from(opencl::Side::kClient), other(opencl::Side::kExecutor);
    AddBuffers(from.line);
    auto* const buffers = from.line.buffers.As<std::byte>();
    for (std::uint64_t i = 0; i < kArenaBytes; ++i) buffers[i] = static_cast<std::byte>(i * 7 + i / 251);
    OutPump out(from.line, *here, OutPump::Side::kExecutors);
    LineSink sink(other.line);
    InPump in(other.line.stop, *there);
    std::thread receiver([&] { static_cast<void>(in.Run(sink)); });
    constexpr std::uint64_t kSize = 300'001, kFrom = 8191, kTo = 500'000;
    SendTo(from.other, cl::Encode(cl::Arrived{.offset = kTo, .size = kSize, .in_buffers = 1, .from = kFrom}));
    SendTo(from.other, cl::Encode(cl::EventDone{.event = 1}));
    ASSERT_TRUE(out.Run([] { return false; }));
    ASSERT_FALSE(ReceiveFrom(other.other).empty());
    EXPECT_EQ(std::memcmp(buffers + kFrom, other.arena() + kTo, kSize), 0);
    EXPECT_EQ(other.arena()[kTo - 1], std::byte{0});
    EXPECT_EQ(other.arena()[kTo + kSize], std::byte{0});
    EXPECT_EQ(out.traffic().uncopied_bytes, std::string_view(to) == "127.0.0.2" ? kSize : 0);
    here->Shutdown();
    there->Shutdown();
    receiver.join();
  }
}

TEST(Pump, ARangeOutsideTheBuffersEndsTheConnection) {
  for (const bool has_buffers : {false, true}) {
    for (const auto& [from, to] : {std::pair{kArenaBytes - 99, std::uint64_t{0}},
                                   {~std::uint64_t{0}, 0},
                                   {std::uint64_t{0}, kArenaBytes - 99}}) {
      Lines lines(opencl::Side::kClient);
      if (has_buffers) AddBuffers(lines.line);
      Pipe pipe(1 << 20);
      OutPump out(lines.line, pipe, OutPump::Side::kExecutors);
      SendTo(lines.other, cl::Encode(cl::Arrived{.offset = to, .size = 100, .in_buffers = 1, .from = from}));
      const Status ended = out.Run([] { return false; });
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, Errc::kProtocol);
    }
  }
}

RC_GTEST_PROP(Pump, AnyCutsGiveTheSame, ()) {
  const auto at_a_time = *rc::gen::inRange<std::size_t>(1, 5000);
  const auto room = *rc::gen::inRange<std::size_t>(1, 5000);
  const auto sizes = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 9000));
  Road road(OutPump::Side::kClients, room, at_a_time);
  std::uint64_t offset = 0;
  std::vector<std::vector<std::byte>> sent;
  for (const std::uint64_t size : sizes) {
    if (offset + size > kArenaBytes) break;
    std::memset(road.from.arena() + offset, static_cast<int>(sent.size() + 1), size);
    sent.push_back(cl::Encode(cl::WriteBuffer{.buffer = 1, .content = cl::Blob::Arena(offset, size)}));
    offset += size;
  }
  for (const auto& message : sent) SendTo(road.from.other, message);
  for (const auto& message : sent) RC_ASSERT(ReceiveFrom(road.to.other) == message);
  RC_ASSERT(std::memcmp(road.from.arena(), road.to.arena(), offset) == 0);
}

TEST(Pump, ManyMessagesGoInOneSend) {
  Lines from(opencl::Side::kExecutor);
  Pipe pipe(1 << 20);
  OutPump out(from.line, pipe, OutPump::Side::kClients);
  for (int i = 0; i < 1000; ++i) SendTo(from.other, cl::Encode(cl::Flush{.queue = 1}));
  ASSERT_TRUE(out.Run([] { return false; }));
  EXPECT_EQ(out.traffic().messages, 1000U);
  EXPECT_EQ(out.traffic().sends, 1U);
  EXPECT_EQ(out.traffic().frames, 1U);
}

TEST(Pump, MessagesBeforeADisconnectionAreSent) {
  Road road(OutPump::Side::kClients);
  const auto last = cl::Encode(cl::Release{.id = 9});
  SendTo(road.from.other, last);
  road.alive = false;
  EXPECT_EQ(ReceiveFrom(road.to.other), last);
  road.sender.join();
  EXPECT_TRUE(road.sent);
}

TEST(Pump, ARangeOutsideTheArenaEndsTheConnection) {
  for (const auto& [offset, size] :
       {std::pair{kArenaBytes - 10, std::uint64_t{11}}, {kArenaBytes + 1, 1}, {1, ~0ULL}}) {
    Lines from(opencl::Side::kExecutor);
    Pipe pipe;
    OutPump out(from.line, pipe, OutPump::Side::kClients);
    SendTo(from.other, cl::Encode(cl::WriteBuffer{.buffer = 1, .content = cl::Blob::Arena(offset, size)}));
    const Status status = out.Run([] { return false; });
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::kProtocol);
  }
}

/// `message`, padded with zeros behind its fields to `bytes` bytes.
std::vector<std::byte> Lengthened(std::vector<std::byte> message, std::uint32_t bytes) {
  message.resize(bytes);
  std::memcpy(message.data(), &bytes, sizeof bytes);  // the header's first field
  return message;
}

/// A log that knows device 1, as after an executor's first reply.
struct FollowedWithDevice : Followed {
  FollowedWithDevice() : Followed([](std::uint64_t, std::uint64_t) { return cl::ByteView(); }) {
    cl::PlatformFacts said;
    said.devices.push_back({.id = 1, .facts = {}});
    std::vector<std::byte> body(1024);
    cl::FieldWriter writer(body);
    cl::PlatformFacts::Fields(said, writer);
    body.resize(writer.size());
    const cl::Reply reply{.request = 0, .status = 0, .part = body};
    EXPECT_TRUE(log.FromExecutor(cl::Encode(reply)));
  }
};
const std::uint32_t kDeviceId = 1;

TEST(Pump, AMessageLongerThanTheProtocolAllowsEndsTheConnectionBeforeItIsCopied) {
  Lines from(opencl::Side::kExecutor);
  Pipe pipe(8 << 20);
  FollowedWithDevice followed;
  OutPump out(from.line, pipe, OutPump::Side::kClients, &followed);
  // A Finish is sent ahead of the Release of a queue that is busy, so that the Release moves in the pump's buffer.
  SendTo(from.other, cl::Encode(cl::CreateContext{.id = 20, .devices = cl::IdList(&kDeviceId, 1)}));
  SendTo(from.other, cl::Encode(cl::CreateQueue{.id = 2, .context = 20, .device = 1}));
  SendTo(from.other, cl::Encode(cl::Marker{.enqueue = {.queue = 2}}));
  ASSERT_TRUE(out.Run([] { return false; }));  // the Release then has the whole buffer to itself
  SendTo(from.other, Lengthened(cl::Encode(cl::Release{.id = 2}), proto::net::kMessagesBytesMax));
  for (int i = 0; i < 2; ++i) SendTo(from.other, Lengthened(cl::Encode(cl::Flush{.queue = 1}), cl::kMessageBytesMax));
  const Status status = out.Run([] { return false; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kProtocol);
}

TEST(Pump, TheLongestMessagesPassAlsoWhereOneGoesAheadOfThem) {
  Lines from(opencl::Side::kExecutor), to(opencl::Side::kClient);
  Pipe pipe(2 << 20);
  FollowedWithDevice followed;
  OutPump out(from.line, pipe, OutPump::Side::kClients, &followed);
  SendTo(from.other, cl::Encode(cl::CreateContext{.id = 20, .devices = cl::IdList(&kDeviceId, 1)}));
  for (std::uint32_t queue = 2; queue < 10; ++queue) {
    SendTo(from.other, cl::Encode(cl::CreateQueue{.id = queue, .context = 20, .device = 1}));
    SendTo(from.other, cl::Encode(cl::Marker{.enqueue = {.queue = queue}}));
    SendTo(from.other, Lengthened(cl::Encode(cl::Release{.id = queue}), cl::kMessageBytesMax));
  }
  const Status status = out.Run([] { return false; });
  ASSERT_TRUE(status) << status.error().message;
  LineSink sink(to.line);
  InPump in(to.line.stop, pipe);
  while (in.traffic().messages < 1 + 8 * 4) {
    const auto came = in.Step(sink, seconds(1));
    ASSERT_TRUE(came && *came) << in.traffic().messages << " messages came";
  }
  std::size_t releases = 0, finishes = 0;
  for (int i = 0; i < 1 + 8 * 4; ++i) {
    cl::Header header;
    const std::vector<std::byte> message = ReceiveFrom(to.other);
    ASSERT_TRUE(cl::ReadHeader(message, header));
    if (header.op == cl::Finish::kOp) ++finishes;
    if (header.op != cl::Release::kOp) continue;
    EXPECT_EQ(++releases, finishes) << "a Finish goes ahead of each";
    EXPECT_EQ(message.size(), cl::kMessageBytesMax);
  }
  EXPECT_EQ(releases, 8U);
}

TEST(Pump, TheReceiverOfAFrameIsWokenOnce) {
  Lines from(opencl::Side::kExecutor), to(opencl::Side::kClient);
  Pipe pipe(1 << 20);
  OutPump out(from.line, pipe, OutPump::Side::kClients);
  for (int i = 0; i < 100; ++i) SendTo(from.other, cl::Encode(cl::Flush{.queue = 1}));
  ASSERT_TRUE(out.Run([] { return false; }));
  LineSink sink(to.line);
  InPump in(to.line.stop, pipe);
  to.Sleeps();
  ASSERT_TRUE(in.Step(sink, milliseconds(20)));
  EXPECT_EQ(in.traffic().messages, 100U);
  EXPECT_EQ(to.line.channel.out.wakes(), 1U);
}

TEST(Pump, LongContentsGoFromTheArenaItselfAndShortOnesWithTheirMessages) {
  auto sockets = testing::ConnectedSockets("127.0.0.2");  // as to another machine
  const auto here = net::AdoptTcp(std::move(sockets.client)), there = net::AdoptTcp(std::move(sockets.server));
  Lines from(opencl::Side::kExecutor), to(opencl::Side::kClient);
  OutPump out(from.line, *here, OutPump::Side::kClients);
  LineSink sink(to.line);
  InPump in(to.line.stop, *there);
  std::thread receiver([&] { static_cast<void>(in.Run(sink)); });
  constexpr std::uint64_t kLong = 700'001, kLongAt = 8191, kShort = 3000, kShortAt = 900'000;
  for (std::uint64_t i = 0; i < kArenaBytes; ++i) from.arena()[i] = static_cast<std::byte>(i * 7 + i / 251);
  SendTo(from.other, cl::Encode(cl::Flush{.queue = 1}));
  SendTo(from.other, cl::Encode(cl::WriteBuffer{.buffer = 1, .content = cl::Blob::Arena(kLongAt, kLong)}));
  SendTo(from.other, cl::Encode(cl::WriteBuffer{.buffer = 1, .content = cl::Blob::Arena(kShortAt, kShort)}));
  SendTo(from.other, cl::Encode(cl::Flush{.queue = 2}));
  ASSERT_TRUE(out.Run([] { return false; }));
  for (int i = 0; i < 4; ++i) ASSERT_FALSE(ReceiveFrom(to.other).empty());
  EXPECT_EQ(out.traffic().arena_bytes, kLong + kShort);
  EXPECT_EQ(out.traffic().uncopied_bytes, kLong);
  EXPECT_EQ(std::memcmp(from.arena() + kLongAt, to.arena() + kLongAt, kLong), 0);
  EXPECT_EQ(std::memcmp(from.arena() + kShortAt, to.arena() + kShortAt, kShort), 0);
  EXPECT_EQ(to.arena()[kLongAt - 1], std::byte{0});
  EXPECT_EQ(to.arena()[kLongAt + kLong], std::byte{0});
  here->Shutdown();
  there->Shutdown();
  receiver.join();
}

TEST(Pump, ADisconnectionWithinLongContentsEndsOnlyTheConnection) {
  auto sockets = testing::ConnectedSockets();
  const auto here = net::AdoptTcp(std::move(sockets.client));
  sockets.server.Reset();
  Lines from(opencl::Side::kExecutor);
  OutPump out(from.line, *here, OutPump::Side::kClients);
  for (int i = 0; i < 100; ++i)
    SendTo(from.other, cl::Encode(cl::WriteBuffer{.buffer = 1, .content = cl::Blob::Arena(0, kArenaBytes)}));
  const Status status = out.Run([] { return false; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kUnavailable) << "and no SIGPIPE";
}

std::vector<std::byte> Frame(proto::net::FrameHeader header, std::size_t body) {
  std::vector<std::byte> bytes(sizeof header + body);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Errc WhatComesOf(const std::vector<std::byte>& bytes) {
  Lines to(opencl::Side::kClient);
  Pipe pipe;
  pipe.Put(bytes);
  pipe.Shutdown();
  LineSink sink(to.line);
  InPump in(to.line.stop, pipe);
  const Status status = in.Run(sink);
  return status ? Errc::kInternal : status.error().code;
}

TEST(Pump, OtherDataThanAFrameEndsTheConnection) {
  EXPECT_EQ(WhatComesOf(Frame({.bytes = 8, .kind = 9}, 8)), Errc::kProtocol);
  EXPECT_EQ(WhatComesOf(Frame({.bytes = 8, .kind = 1}, 8)), Errc::kProtocol) << "a second Hello";
  EXPECT_EQ(WhatComesOf(Frame({.bytes = 1 << 30, .kind = 3}, 8)), Errc::kProtocol);
  EXPECT_EQ(WhatComesOf(Frame({.bytes = 8, .kind = 4, .offset = kArenaBytes - 7}, 8)), Errc::kProtocol);
  EXPECT_EQ(WhatComesOf(Frame({.bytes = 8, .kind = 4, .offset = ~0ULL}, 8)), Errc::kProtocol);
  EXPECT_EQ(WhatComesOf(Frame({.bytes = 8, .kind = 3}, 8)), Errc::kProtocol) << "a message of no bytes";
  auto longer = Frame({.bytes = 8, .kind = 3}, 8);
  longer[16] = std::byte{64};  // a message that is longer than its frame
  EXPECT_EQ(WhatComesOf(longer), Errc::kProtocol);
  EXPECT_EQ(WhatComesOf(Frame({.bytes = 8, .kind = 4}, 3)), Errc::kUnavailable) << "cut in the middle";
}

}  // namespace
}  // namespace weir::remote
