// SPDX-License-Identifier: Apache-2.0
// Each kind of object on its own. object_log_laws_test.cc tests properties of all sequences.
#include "opencl/log/object_log.h"

#include <gtest/gtest.h>

#include "tests/harness/followed_connection.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;
using testing::FollowedConnection;

constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kProgram = 4, kKernel = 5, kBuffer = 6, kPart = 7;
constexpr auto kObjectArg = static_cast<std::uint8_t>(wire::ArgKind::kObject);

class ObjectLogOf : public ::testing::Test {
 protected:
  void SetUp() override {
    connection.Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&kDevice, 1)});
    connection.Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice});
  }
  void MakeProgram(std::uint32_t id, std::string_view source) {
    connection.Send(
        wire::CreateProgram{.id = id, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(source))});
  }
  void Build(std::uint32_t program, std::string_view options = "") {
    connection.Send(wire::Build{.request = ++request, .program = program, .options = options});
  }
  void Compile(std::uint32_t program, std::string_view options = "") {
    connection.Send(wire::Compile{.request = ++request, .program = program, .options = options});
  }
  void MakeBuffer(std::uint32_t id, std::uint8_t filled = 0, std::uint64_t flags = CL_MEM_READ_WRITE) {
    connection.Send(wire::CreateBuffer{
        .id = id, .context = kContext, .flags = flags, .size = 4096, .offset = 4096 * id, .filled = filled});
  }
  void SetArg(std::uint32_t kernel, std::uint32_t index, std::uint32_t object) {
    connection.Send(wire::SetArg{.kernel = kernel, .index = index, .kind = kObjectArg, .object = object});
  }
  void Launch(std::uint32_t kernel, std::uint32_t event = 0) {
    connection.Send(wire::NdRange{.enqueue = {.queue = kQueue, .event = event}, .kernel = kernel, .dimensions = 1});
  }
  void Release(std::uint32_t id, std::uint64_t ticket = 0) {
    connection.Send(wire::Release{.id = id, .ticket = ticket});
  }
  /// Replays and compares the results.
  void ExpectSame() {
    connection.Settle();
    EXPECT_TRUE(connection.log.in_flight().none());
    FollowedConnection fresh;
    connection.ReplayInto(fresh);
    EXPECT_EQ(fresh.executor.Describe(), connection.executor.Describe());
  }
  std::size_t Replayed(std::uint16_t op) {
    std::size_t count = 0;
    for (const auto& message : connection.MakeReplay().messages) {
      wire::Header header;
      wire::ReadHeader(message, header);
      count += header.op == op ? 1 : 0;
    }
    return count;
  }
  ObjectLog::Contents ContentsOf(std::uint32_t id) {
    for (const auto& memory : connection.log.memories())
      if (memory.id == id) return memory.contents;
    ADD_FAILURE() << id << " is not among the memory objects";
    return {};
  }

  FollowedConnection connection;
  std::uint32_t request = 0;
};

TEST_F(ObjectLogOf, AQueueKeepsItsContextThoughThatWasReleased) {
  Release(kContext);
  MakeBuffer(9);  // of a missing context
  connection.Send(wire::CreateSampler{.id = kContext, .context = 0});
  ExpectSame();
  Release(kQueue);
  Release(9);
  Release(kContext);
  EXPECT_EQ(connection.log.kept().objects, 1U);  // the device
}

TEST_F(ObjectLogOf, AKernelKeepsItsProgramAndTheLastOfEachArgument) {
  MakeProgram(kProgram, "source");
  Build(kProgram, "-DN=1");
  connection.Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "k"});
  MakeBuffer(kBuffer);
  connection.Send(wire::CreateSampler{.id = 8, .context = kContext, .filter = 3});
  for (int i = 0; i < 3; ++i) {
    SetArg(kKernel, 0, kBuffer);
    SetArg(kKernel, 1, 8);
    connection.Send(wire::SetArg{.kernel = kKernel, .index = 2, .data = wire::BytesOf(std::to_string(i))});
    connection.Send(wire::SetArg{.kernel = kKernel, .index = 3, .kind = 2, .size = 64});
  }
  Release(kProgram);
  ExpectSame();
  EXPECT_EQ(Replayed(wire::SetArg::kOp), 4U);
  EXPECT_EQ(Replayed(wire::Release::kOp), 1U);
  Release(kBuffer);
  ExpectSame();
  EXPECT_EQ(Replayed(wire::SetArg::kOp), 3U);
  SetArg(kKernel, 0, 77);  // there is no such object
  ExpectSame();
  Release(kKernel);
  EXPECT_EQ(Replayed(wire::Build::kOp), 0U);
}

TEST_F(ObjectLogOf, ABadArgumentIsReplayedUntilItIsSet) {
  MakeProgram(kProgram, "source");
  Build(kProgram);
  connection.Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "k"});
  MakeBuffer(kBuffer);
  SetArg(kKernel, 0, kBuffer);
  SetArg(kKernel, 0, 77);  // there is no such object
  SetArg(kKernel, 1, kBuffer);
  ExpectSame();
  EXPECT_EQ(Replayed(wire::SetArg::kOp), 3U);
  SetArg(kKernel, 0, kBuffer);
  ExpectSame();
  EXPECT_EQ(Replayed(wire::SetArg::kOp), 2U);
  SetArg(kKernel, 5'000, kBuffer);  // beyond all arguments
  SetArg(kKernel, 0, kBuffer);
  ExpectSame();
  EXPECT_EQ(Replayed(wire::SetArg::kOp), 3U);
}

TEST_F(ObjectLogOf, OnlyBuildsThatStillCountAreReplayed) {
  MakeProgram(kProgram, "source");
  for (int i = 0; i < 10; ++i) Build(kProgram, "-DN=" + std::to_string(i));
  EXPECT_EQ(Replayed(wire::Build::kOp), 1U);
  ExpectSame();
  Build(kProgram, "refuse");
  EXPECT_EQ(Replayed(wire::Build::kOp), 1U);
  ExpectSame();
  Build(kProgram, "fail");
  ExpectSame();
  EXPECT_EQ(Replayed(wire::Build::kOp), 0U);
}

TEST_F(ObjectLogOf, ALinkedProgramIsMadeOfWhatItsInputsWereThen) {
  MakeProgram(kProgram, "main");
  MakeProgram(20, "library");
  Compile(kProgram, "-DOLD");
  Compile(20);
  const std::uint32_t inputs[] = {kProgram, 20};
  connection.Send(wire::Link{.request = ++request, .id = 21, .context = kContext, .programs = wire::IdList(inputs, 2)});
  Compile(kProgram, "-DNEW");
  ExpectSame();
  EXPECT_EQ(Replayed(wire::Compile::kOp), 3U);
  Release(20);
  ExpectSame();
  Release(kProgram);
  connection.Send(wire::CreateKernel{.id = kProgram, .program = 21, .name = "k"});
  Release(21);
  ExpectSame();
  EXPECT_EQ(Replayed(wire::Compile::kOp), 2U);
}

TEST_F(ObjectLogOf, ABuildThatFailedUndoesALink) {
  MakeProgram(kProgram, "main");
  Compile(kProgram);
  const std::uint32_t inputs[] = {kProgram};
  connection.Send(wire::Link{.request = ++request, .id = 21, .context = kContext, .programs = wire::IdList(inputs, 1)});
  ExpectSame();
  Build(21, "fail");
  ExpectSame();
}

TEST_F(ObjectLogOf, ProgramsThatIncludeEachOtherAreForgottenWithTheirIds) {
  MakeProgram(10, "a");
  MakeProgram(11, "b");
  for (const std::uint32_t program : {10U, 11U}) {
    const std::uint32_t header = 21 - program;
    wire::Compile compile{.request = ++request, .program = program, .header_programs = wire::IdList(&header, 1)};
    compile.header_names.push_back("other.h");
    connection.Send(compile);
  }
  ExpectSame();
  const auto before = connection.log.kept();
  Release(10);
  ExpectSame();
  Release(11);
  EXPECT_LT(connection.log.kept().objects, before.objects);
  EXPECT_EQ(connection.log.kept().builds, 0U);
}

TEST_F(ObjectLogOf, LongContentsAreCopiedAtOnceAndPlacedAgain) {
  const std::string source(40'000, 's'), header(30'000, 'h');
  auto& arena = connection.executor.arena;
  std::memcpy(arena.data() + 8192, source.data(), source.size());
  std::memcpy(arena.data() + 65536, header.data(), header.size());
  connection.Send(wire::CreateProgram{
      .id = kProgram, .context = kContext, .source = wire::Blob::Arena(8192, source.size()), .ticket = 5});
  wire::Build build{.request = ++request, .program = kProgram};
  build.headers.push_back({.name = "a.h", .content = wire::Blob::Arena(65536, header.size()), .ticket = 6});
  build.headers.push_back({.name = "b.h", .content = wire::Blob::Inline(wire::BytesOf("short"))});
  connection.Send(build);
  std::ranges::fill(arena, std::byte{0});
  ExpectSame();
  // A range outside the arena has no content.
  connection.Send(wire::CreateProgram{.id = 30, .context = kContext, .source = wire::Blob::Arena(1 << 20, 1)});
  ExpectSame();
  const auto full = [](wire::ByteView) { return std::optional<wire::Blob>(); };
  EXPECT_FALSE(connection.log.MakeReplay(full));
}

TEST_F(ObjectLogOf, ABinaryComesWithItsDevices) {
  connection.Send(wire::CreateProgramFromBinary{.id = kProgram,
                                                .context = kContext,
                                                .devices = wire::IdList(&kDevice, 1),
                                                .binary = wire::Blob::Inline(wire::BytesOf("binary"))});
  Build(kProgram);
  ExpectSame();
}

TEST_F(ObjectLogOf, PartsOfADeviceKeepTheirIds) {
  const std::uint64_t equally[] = {CL_DEVICE_PARTITION_EQUALLY, 3, 0};
  connection.Send(wire::CreateSubDevices{
      .request = ++request, .device = kDevice, .first = 10, .properties = wire::NumberList<std::uint64_t>(equally, 3)});
  Release(11);
  const std::uint32_t parts[] = {10, 12};
  connection.Send(wire::CreateContext{.id = 11, .devices = wire::IdList(parts, 2)});
  Release(12);
  ExpectSame();
  connection.Send(wire::CreateQueue{.id = 12, .context = 11, .device = 10});
  Release(10);
  Release(11);
  ExpectSame();
  Release(kDevice);
  ExpectSame();
  Release(12);
  EXPECT_EQ(Replayed(wire::CreateSubDevices::kOp), 0U);
  connection.Send(wire::CreateContext{.id = kDevice, .devices = {}});
  ExpectSame();
}

TEST_F(ObjectLogOf, ContentsAreKnownAsWhatTheyAre) {
  using Contents = ObjectLog::Contents;
  MakeBuffer(kBuffer);
  MakeBuffer(10, 1);
  MakeBuffer(11, 0, CL_MEM_READ_ONLY);
  connection.Send(wire::CreateImage{.id = 12,
                                    .context = kContext,
                                    .type = CL_MEM_OBJECT_IMAGE2D_ARRAY,
                                    .width = 8,
                                    .height = 4,
                                    .array_size = 3,
                                    .content = wire::Blob::Inline(wire::BytesOf("pixels")),
                                    .ticket = 9});
  EXPECT_EQ(ContentsOf(kBuffer), Contents::kNone);
  EXPECT_EQ(ContentsOf(10), Contents::kGiven);
  EXPECT_EQ(ContentsOf(12), Contents::kGiven);
  EXPECT_EQ(connection.log.memories().back().extent[2], 3U);
  MakeProgram(kProgram, "source");
  Build(kProgram);
  connection.Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "k"});
  connection.Send(wire::CreateSubBuffer{.id = kPart, .parent = kBuffer, .origin = 64, .size = 64});
  SetArg(kKernel, 0, kPart);
  SetArg(kKernel, 1, 11);
  Launch(kKernel);
  EXPECT_EQ(ContentsOf(kBuffer), Contents::kWritten);
  EXPECT_EQ(ContentsOf(11), Contents::kNone);
  connection.log.ContentsKnown(kBuffer);
  EXPECT_EQ(ContentsOf(kBuffer), Contents::kKnown);
  Launch(kKernel);
  EXPECT_EQ(ContentsOf(kBuffer), Contents::kWritten);
  connection.Send(wire::FillBuffer{.enqueue = {.queue = kQueue}, .buffer = 11, .size = 4});
  EXPECT_EQ(ContentsOf(11), Contents::kWritten);
  EXPECT_EQ(connection.log.memories().size(), 4U);
}

TEST_F(ObjectLogOf, TheDescriptionOfAMemoryObjectSufficesToReadIt) {
  MakeBuffer(kBuffer, 1, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS);
  connection.Send(wire::CreateSubBuffer{.id = kPart, .parent = kBuffer, .origin = 64, .size = 80});
  Release(kBuffer);
  connection.Send(wire::CreateImage{.id = 12,
                                    .context = kContext,
                                    .channel_order = CL_RGBA,
                                    .channel_type = CL_HALF_FLOAT,
                                    .type = CL_MEM_OBJECT_IMAGE2D,
                                    .width = 8,
                                    .height = 4,
                                    .depth = 7,  // ignored for this type
                                    .content = wire::Blob::Inline(wire::BytesOf("pixels"))});
  const auto memories = connection.log.memories();
  ASSERT_EQ(memories.size(), 2U);
  EXPECT_EQ(memories[0].context, kContext);
  EXPECT_EQ(memories[0].device, kDevice);
  EXPECT_EQ(memories[0].size, 80U);
  EXPECT_EQ(memories[0].flags, std::uint64_t{CL_MEM_HOST_NO_ACCESS});
  EXPECT_EQ(memories[1].pixel_bytes, 8U);
  EXPECT_EQ(memories[1].size, 8U * 8 * 4);
  EXPECT_EQ(memories[1].extent[2], 1U);
  EXPECT_FALSE(connection.log.MakerOf(kPart));
  EXPECT_TRUE(connection.log.MakerOf(12));
  EXPECT_TRUE(connection.log.Stands({.id = 12, .number = memories[1].number}));
  Release(kContext);
  EXPECT_EQ(connection.log.memories()[0].context, 0U);
  EXPECT_FALSE(connection.log.MakerOf(12));
  EXPECT_FALSE(connection.log.BusyQueues(kContext));
}

TEST_F(ObjectLogOf, AReaderKnowsItsPrecedingWriters) {
  using Ids = std::vector<std::uint32_t>;
  EXPECT_EQ(connection.log.BusyQueues(kContext), Ids());
  connection.answer_at_once = false;
  connection.Send(wire::CreateContext{.id = 20, .devices = wire::IdList(&kDevice, 1)});
  connection.Send(wire::CreateQueue{.id = 21, .context = 20, .device = kDevice});
  connection.Send(wire::Marker{.enqueue = {.queue = kQueue}});
  EXPECT_EQ(connection.log.BusyQueues(kContext), Ids{kQueue});
  EXPECT_EQ(connection.log.BusyQueues(20), Ids());
  // A queue that waits for the client may wait for a long time.
  connection.Send(wire::CreateUserEvent{.id = 30, .context = kContext});
  EXPECT_FALSE(connection.log.BusyQueues(kContext));
  connection.Send(wire::SetUserEvent{.id = 30, .status = 0});
  EXPECT_EQ(connection.log.BusyQueues(kContext), Ids{kQueue});
  // A released queue has no id, and may be busy.
  Release(kQueue);
  EXPECT_FALSE(connection.log.BusyQueues(kContext));
  connection.Answers();
  EXPECT_EQ(connection.log.BusyQueues(kContext), Ids());
}

TEST_F(ObjectLogOf, ForgottenContentsAreMovedAgain) {
  MakeBuffer(kBuffer, 1);
  MakeBuffer(10);
  connection.log.ContentsKnown(kBuffer);
  connection.log.ContentsKnown(10);
  connection.log.ForgetContents();
  EXPECT_EQ(ContentsOf(kBuffer), ObjectLog::Contents::kWritten);
  EXPECT_EQ(ContentsOf(10), ObjectLog::Contents::kNone);
}

TEST(ObjectLog, MemoryThatTheClientMayWriteCountsAsWritten) {
  FollowedConnection connection(true);
  connection.Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&kDevice, 1)});
  connection.Send(wire::CreateBuffer{.id = kBuffer, .context = kContext, .size = 4096, .offset = 8192});
  connection.log.ContentsKnown(kBuffer);
  ASSERT_EQ(connection.log.memories().size(), 1U);
  EXPECT_EQ(connection.log.memories()[0].contents, ObjectLog::Contents::kWritten);
}

TEST_F(ObjectLogOf, APartKeepsItsBufferAndItsTicket) {
  MakeBuffer(kBuffer);
  connection.Send(wire::CreateSubBuffer{.id = kPart, .parent = kBuffer, .origin = 64, .size = 64});
  connection.Send(wire::CreateImage{.id = 12, .context = kContext, .width = 4, .buffer = kBuffer});
  connection.Send(wire::CreateImage{.id = 13, .context = kContext, .width = 4, .buffer = 99});
  Release(kBuffer, 77);
  EXPECT_TRUE(connection.log.in_flight().none());  // the buffer stays as long as its parts
  connection.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue}, .buffer = kPart, .ticket = 78});
  ASSERT_EQ(connection.log.memories().size(), 2U);
  EXPECT_EQ(connection.log.memories()[0].id, kPart);
  EXPECT_TRUE(connection.log.memories()[1].image);
  ExpectSame();
  FollowedConnection fresh;
  connection.ReplayInto(fresh);
  EXPECT_FALSE(fresh.freed.contains(77));
  fresh.Send(wire::Release{.id = kPart});
  fresh.Send(wire::Release{.id = 12});
  EXPECT_TRUE(fresh.freed.contains(77));
  Release(kPart);
  Release(12);
  EXPECT_TRUE(connection.freed.contains(77));
  EXPECT_TRUE(connection.log.in_flight().none());
}

TEST_F(ObjectLogOf, EndedEventsAreRecreatedAsEnded) {
  MakeBuffer(kBuffer);
  connection.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue, .event = 30}, .buffer = kBuffer});
  connection.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue, .event = 31}, .buffer = 99});
  connection.Send(wire::Marker{.enqueue = {.queue = 99, .event = 32}});
  connection.Send(wire::CreateUserEvent{.id = 33, .context = kContext});
  connection.Send(wire::CreateUserEvent{.id = 34, .context = kContext});
  connection.Send(wire::SetUserEvent{.id = 34, .status = -7});
  connection.Send(wire::CreateUserEvent{.id = 35, .context = 99});
  connection.Send(wire::Watch{.event = 33});
  EXPECT_EQ(connection.log.in_flight().commands, 2U);
  EXPECT_EQ(connection.log.in_flight().user_events, 1U);
  ExpectSame();
  // The queue, its context and their ids may have been released.
  Release(kQueue);
  Release(kBuffer);
  Release(kContext);
  connection.Send(wire::CreateSampler{.id = kContext, .context = 0});
  ExpectSame();
}

TEST_F(ObjectLogOf, KnowsCommandsInFlight) {
  connection.answer_at_once = false;
  MakeBuffer(kBuffer);
  MakeProgram(kProgram, "source");
  Build(kProgram);
  connection.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue, .event = 30}, .buffer = kBuffer, .ticket = 4});
  connection.Send(wire::Marker{.enqueue = {.queue = kQueue}});
  connection.Send(wire::Finish{.request = 50, .queue = kQueue});
  auto now = connection.log.in_flight();
  EXPECT_EQ(now.commands, 2U);
  EXPECT_EQ(now.requests, 2U);
  EXPECT_EQ(now.tickets, 1U);
  EXPECT_EQ(now.ends_untold, 1U);
  connection.Answers();
  now = connection.log.in_flight();
  EXPECT_EQ(now.commands + now.requests + now.tickets, 0U);
  EXPECT_EQ(now.ends_untold, 1U);
  EXPECT_FALSE(now.none());
  const std::size_t told = connection.to_client.size();
  connection.Settle();
  EXPECT_TRUE(connection.log.in_flight().none());
  EXPECT_EQ(connection.to_client.size(), told);  // the client does not see the log's own question
}

TEST_F(ObjectLogOf, AnInOrderQueueHasEndedWhatCameBefore) {
  for (int i = 0; i < 5; ++i) connection.Send(wire::Marker{.enqueue = {.queue = kQueue}});
  connection.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 30}});
  connection.Send(wire::Watch{.event = 30});
  EXPECT_EQ(connection.log.in_flight().commands, 0U);
}

TEST_F(ObjectLogOf, AQueueIsFinishedBeforeItIsReleased) {
  connection.Send(wire::Marker{.enqueue = {.queue = kQueue}});
  const auto release = wire::Encode(wire::Release{.id = kQueue});
  EXPECT_TRUE(connection.log.Ahead(release));
  EXPECT_FALSE(connection.log.Ahead(release));  // once
  EXPECT_TRUE(connection.log.FromClient(release));
  EXPECT_EQ(connection.log.in_flight().requests, 1U);
  EXPECT_EQ(connection.log.in_flight().lost_queues, 0U);
  connection.Send(wire::CreateQueue{.id = 40, .context = kContext, .device = kDevice});
  connection.Send(wire::Marker{.enqueue = {.queue = 40}});
  EXPECT_TRUE(connection.log.FromClient(wire::Encode(wire::Release{.id = 40})));
  EXPECT_EQ(connection.log.in_flight().lost_queues, 1U);
}

TEST_F(ObjectLogOf, AnErrorLearntByAProbeIsPassedToTheClient) {
  connection.Send(wire::CopyBuffer{.enqueue = {.queue = kQueue}, .from = 98, .to = 99});
  connection.Settle();
  const auto before = connection.MakeReplay().messages.size();
  for (const auto& failing : connection.log.ErrorsOwed()) connection.SendUnseen(failing);
  EXPECT_EQ(connection.MakeReplay().messages.size(), before - 1);
  connection.Send(wire::Finish{.request = 60, .queue = kQueue});
  wire::Reply reply;
  ASSERT_TRUE(wire::Decode(connection.to_client.back(), reply));
  EXPECT_EQ(reply.status, CL_INVALID_MEM_OBJECT);
}

TEST_F(ObjectLogOf, AnErrorReportedOnlyByAFinishIsFetched) {
  connection.Send(wire::CopyBuffer{.enqueue = {.queue = kQueue}, .from = 98, .to = 99});
  connection.Send(wire::Marker{.enqueue = {.queue = kQueue, .event = 30}});
  connection.Send(wire::Watch{.event = 30});
  ASSERT_EQ(connection.log.in_flight().commands, 0U);
  EXPECT_EQ(connection.log.in_flight().errors_untold, 1U);
  EXPECT_EQ(connection.log.Questions().size(), 1U);
  EXPECT_TRUE(connection.log.Questions().empty());  // once
}

TEST_F(ObjectLogOf, MalformedAndForeignMessagesAreRefused) {
  EXPECT_FALSE(connection.log.FromClient({}));
  EXPECT_FALSE(connection.log.FromExecutor({}));
  auto cut = wire::Encode(wire::NdRange{});
  cut.resize(cut.size() - 3);
  EXPECT_FALSE(connection.log.FromClient(cut));  // shorter than it says
  const auto size = static_cast<std::uint32_t>(cut.size());
  std::memcpy(cut.data(), &size, sizeof size);
  EXPECT_FALSE(connection.log.FromClient(cut));  // within a field
  EXPECT_FALSE(connection.log.FromClient(wire::Encode(wire::Freed{})));
  EXPECT_FALSE(connection.log.FromExecutor(wire::Encode(wire::Finish{})));
  const wire::Header unknown{8, 9999, 0}, ignored{8, 9999, wire::kMayIgnore};
  EXPECT_FALSE(connection.log.FromClient(std::as_bytes(std::span(&unknown, 1))));
  EXPECT_TRUE(connection.log.FromClient(std::as_bytes(std::span(&ignored, 1))));
  connection.Send(wire::Release{.id = 0xFFFFFFFF});
  connection.Send(wire::CreateSampler{.id = 0xFFFFFFFF, .context = kContext});
  connection.Send(wire::CreateSampler{.id = 0, .context = kContext});
  ExpectSame();
}

TEST_F(ObjectLogOf, AChainOfLinksEndsSomewhere) {
  MakeProgram(10, "a");
  Compile(10);
  std::uint32_t last = 10;
  for (int i = 0; i < 2500; ++i) {  // longer than what it may keep
    const std::uint32_t next = last == 10 ? 11 : 10;
    connection.Send(
        wire::Link{.request = ++request, .id = next, .context = kContext, .programs = wire::IdList(&last, 1)});
    Release(last);
    last = next;
  }
  EXPECT_LT(connection.log.kept().objects, 2000U);
}

}  // namespace
}  // namespace weir::opencl
