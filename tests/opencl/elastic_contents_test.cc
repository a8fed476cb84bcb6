// SPDX-License-Identifier: Apache-2.0
// Contents of buffers and images that have been in host memory and back, and what of them was copied.
#include <random>

#include "tests/opencl/elastic_executor.h"

namespace weir::testing {
namespace {

namespace wire = proto::cl;

class ElasticContents : public ElasticExecutor {
 protected:
  void SetUp() override { Start(4); }
  /// Everything out, and back when it is used.
  void SendAway() {
    OrderAndAwait(0);
    EXPECT_EQ(Books().resident_slots, 0U);
    OrderAndAwait(4);
  }
  /// Bytes copied out by sending everything away.
  std::uint64_t CopiedBySendingAway(RawClient& client) {
    EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
    const std::uint64_t before = FreshBooks().copied_out.count;
    SendAway();
    return Books().copied_out.count - before;
  }
};

TEST_F(ElasticContents, OfBuffersAreRestored) {
  RawClient client = Prepared();
  for (const std::uint32_t id : {10U, 11U, 12U}) {
    MakeBuffer(client, id, 24 * kMiB);
    Fill(client, id, 24 * kMiB);
  }
  EXPECT_EQ(CopiedBySendingAway(client), 72 * kMiB);
  EXPECT_EQ(Books().evictions, 3U);
  for (const std::uint32_t id : {12U, 10U, 11U}) EXPECT_TRUE(Holds(client, id, 24 * kMiB, PatternOf(id))) << id;
  EXPECT_EQ(FreshBooks().copied_in.count, 72 * kMiB);
  EXPECT_EQ(Books().made.count, 72 * kMiB);
  EXPECT_EQ(Books().resident_slots, 2U);
}

TEST_F(ElasticContents, ThatAreCleanAreNotCopiedOutAgain) {
  RawClient client = Prepared();
  MakeBuffer(client, 10, 8 * kMiB);
  Fill(client, 10, 8 * kMiB);
  EXPECT_EQ(CopiedBySendingAway(client), 8 * kMiB);
  EXPECT_TRUE(Holds(client, 10, 8 * kMiB, PatternOf(10)));
  EXPECT_EQ(CopiedBySendingAway(client), 0U);
  EXPECT_TRUE(Holds(client, 10, 8 * kMiB, PatternOf(10)));
}

TEST_F(ElasticContents, OfWhatAKernelCanNotWriteToStayClean) {
  RawClient client = Prepared();
  for (const std::uint32_t id : {10U, 11U}) {
    MakeBuffer(client, id, 4 * kMiB);
    Fill(client, id, 4 * kMiB);
  }
  MakeBuffer(client, 12, 4 * kMiB, kReadOnly);
  Fill(client, 12, 4 * kMiB);
  EXPECT_EQ(CopiedBySendingAway(client), 12 * kMiB);
  MakeKernel(client, "add", {10, 11});  // reads the first through a pointer to const
  SetNumber(client, 2, 5);
  Launch(client, kMiB);
  EXPECT_EQ(CopiedBySendingAway(client), 4 * kMiB);
  EXPECT_TRUE(Holds(client, 11, 4 * kMiB, PatternOf(10) + 5));
  MakeKernel(client, "more", {12}, 6);  // writes to what no kernel may write to: nothing is promised
  Launch(client, 1, 0, 6);
  EXPECT_EQ(CopiedBySendingAway(client), 0U);
}

TEST_F(ElasticContents, AreCopiedWhereTheyWereWritten) {
  RawClient client = Prepared();
  for (const std::uint32_t id : {10U, 11U}) MakeBuffer(client, id, 8 * kMiB);
  Fill(client, 10, 4096, 2 * kMiB);
  EXPECT_EQ(CopiedBySendingAway(client), 4096U);
  EXPECT_EQ(Read(client, 10, 4, 2 * kMiB + 4092)[0], PatternOf(10));
  EXPECT_EQ(FreshBooks().copied_in.count, 4096U);

  const std::vector<std::byte> bytes(1000, std::byte{7});
  client.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue}, .buffer = 10, .content = wire::Blob::Inline(bytes)});
  EXPECT_EQ(CopiedBySendingAway(client), 1000U);
  client.Send(wire::CopyBuffer{
      .enqueue = {.queue = kQueue}, .from = 10, .to = 11, .from_offset = 0, .to_offset = kMiB, .size = 500});
  EXPECT_EQ(CopiedBySendingAway(client), 500U);
  // Two rows of 10 bytes, 100 apart, and from the second slice on: 1000 + 100 + 10 bytes behind the first.
  client.Send(wire::WriteBufferRect{.enqueue = {.queue = kQueue},
                                    .buffer = 11,
                                    .origin = {5, 0, 3},
                                    .region = {10, 2, 2},
                                    .row_pitch = 100,
                                    .slice_pitch = 1000,
                                    .content = wire::Blob::Inline(std::span(bytes).first(40))});
  EXPECT_EQ(CopiedBySendingAway(client), 1110U);
  EXPECT_EQ(Read(client, 11, 4, kMiB)[0], 0x07070707U);
  EXPECT_EQ(Read(client, 11, 4, 4105)[0], 0x07070707U);
}

TEST_F(ElasticContents, ThatWereNeverWrittenAreNotCopied) {
  RawClient client = Prepared();
  for (const std::uint32_t id : {10U, 11U}) MakeBuffer(client, id, 32 * kMiB);
  Read(client, 10, 4);
  EXPECT_EQ(CopiedBySendingAway(client), 0U);
  Read(client, 10, 4);
  EXPECT_EQ(FreshBooks().copied_in.count, 0U);
  EXPECT_EQ(Books().evictions, 1U);  // the other one was never there
}

TEST_F(ElasticContents, GivenAtCreationAreKeptIndependentlyOfTheArena) {
  RawClient client = Prepared();
  std::memset(client.arena() + PlaceOf(11), 3, kMiB);
  MakeBuffer(client, 11, kMiB, CL_MEM_READ_WRITE, /*filled=*/true);
  EXPECT_EQ(Read(client, 11, 4)[0], 0x03030303U);
  std::memset(client.arena() + PlaceOf(11), 4, kMiB);
  EXPECT_EQ(CopiedBySendingAway(client), kMiB);
  EXPECT_TRUE(Holds(client, 11, kMiB, 0x03030303U));
}

TEST_F(ElasticContents, OfPartsAreTheirBuffers) {
  RawClient client = Prepared();
  MakeBuffer(client, 10, 8 * kMiB);
  Fill(client, 10, 8 * kMiB);
  client.Send(wire::CreateSubBuffer{.id = 20, .parent = 10, .origin = kMiB, .size = kMiB});
  client.Send(wire::CreateSubBuffer{.id = 21, .parent = 10, .origin = 4 * kMiB, .size = kMiB});
  client.Send(wire::Release{.id = 10, .ticket = 9});  // its parts keep it
  MakeKernel(client, "add", {20, 21});
  SetNumber(client, 2, 1);
  Launch(client, kMiB / 4);
  EXPECT_EQ(CopiedBySendingAway(client), 8 * kMiB);
  EXPECT_TRUE(Holds(client, 21, kMiB, PatternOf(10) + 1));
  Launch(client, kMiB / 4);
  EXPECT_EQ(CopiedBySendingAway(client), kMiB);  // the part's range
  EXPECT_TRUE(Holds(client, 20, kMiB, PatternOf(10)));
  EXPECT_TRUE(Holds(client, 21, kMiB, PatternOf(10) + 1));
  client.Send(wire::Release{.id = 20});
  client.Send(wire::Release{.id = 21});
  client.Send(wire::Release{.id = kKernel});
  EXPECT_TRUE(client.Freed(9));
  EXPECT_TRUE(WaitUntil([this] { return Books().made.count == 0; }));
}

TEST_F(ElasticContents, FollowArgumentsThatWereReleasedAndReplaced) {
  RawClient client = Prepared();
  for (const std::uint32_t id : {10U, 11U, 12U}) {
    MakeBuffer(client, id, kMiB);
    Fill(client, id, kMiB);
  }
  MakeKernel(client, "add", {10, 11});
  SetNumber(client, 2, 1);
  Launch(client, kMiB / 4);
  SendAway();
  Launch(client, kMiB / 4);  // as they were set, in other places
  EXPECT_TRUE(Holds(client, 11, kMiB, PatternOf(10) + 1));
  client.Send(wire::Release{.id = 10, .ticket = 3});
  SendAway();
  Launch(client, 8, 31);
  EXPECT_EQ(client.EndOf(31), CL_INVALID_KERNEL_ARGS);
  EXPECT_TRUE(client.Freed(3));
  SetArg(client, 0, 12);
  Launch(client, kMiB / 4);
  EXPECT_TRUE(Holds(client, 11, kMiB, PatternOf(12) + 1));
  MakeBuffer(client, 10, kMiB);  // the same id, another buffer
  Fill(client, 10, kMiB);
  SetArg(client, 0, 10);
  SendAway();
  Launch(client, kMiB / 4);
  EXPECT_TRUE(Holds(client, 11, kMiB, PatternOf(10) + 1));
}

class ElasticImages : public ElasticContents {
 protected:
  static constexpr std::uint64_t kWidth = 64, kHeight = 32, kDepth = 8;
  static wire::CreateImage Like(std::uint32_t id, cl_mem_object_type type, std::uint64_t height, std::uint64_t depth) {
    return {.id = id,
            .context = kContext,
            .flags = CL_MEM_READ_WRITE,
            .channel_order = CL_RGBA,
            .channel_type = CL_FLOAT,
            .type = type,
            .width = kWidth,
            .height = height,
            .depth = depth};
  }
  /// Pixel by pixel another number.
  static std::vector<float> Picture(std::uint64_t pixels, float first) {
    std::vector<float> values(pixels * 4);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
    return values;
  }
  static std::vector<float> ReadImage(RawClient& client, std::uint32_t id, std::uint64_t height, std::uint64_t depth) {
    std::vector<float> values(kWidth * height * depth * 4);
    client.Send(wire::ReadImage{.enqueue = {.queue = kQueue},
                                .image = id,
                                .region = {kWidth, height, depth},
                                .to = 0,
                                .size = values.size() * 4});
    EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
    std::memcpy(values.data(), client.arena(), values.size() * 4);
    return values;
  }
};

TEST_F(ElasticImages, OfTwoAndThreeDimensionsAreRestored) {
  RawClient client = Prepared();
  const std::vector<float> flat = Picture(kWidth * kHeight, 0.5F);
  const std::vector<float> deep = Picture(kWidth * kHeight * kDepth, 1000.5F);
  wire::CreateImage made = Like(20, CL_MEM_OBJECT_IMAGE2D, kHeight, 0);
  std::memcpy(client.arena() + 64 * kMiB, flat.data(), flat.size() * 4);
  made.content = wire::Blob::Arena(64 * kMiB, flat.size() * 4);
  made.ticket = 7;
  client.Send(made);
  EXPECT_TRUE(client.Freed(7));
  client.Send(Like(21, CL_MEM_OBJECT_IMAGE3D, kHeight, kDepth));
  std::memcpy(client.arena() + 64 * kMiB, deep.data(), deep.size() * 4);
  client.Send(wire::WriteImage{.enqueue = {.queue = kQueue},
                               .image = 21,
                               .region = {kWidth, kHeight, kDepth},
                               .content = wire::Blob::Arena(64 * kMiB, deep.size() * 4)});
  EXPECT_EQ(ReadImage(client, 20, kHeight, 1), flat);
  EXPECT_EQ(CopiedBySendingAway(client), deep.size() * 4);  // the other one has its host's copy from the start
  EXPECT_EQ(ReadImage(client, 20, kHeight, 1), flat);
  EXPECT_EQ(ReadImage(client, 21, kHeight, kDepth), deep);
  EXPECT_EQ(FreshBooks().made.count, (flat.size() + deep.size()) * 4);

  MakeBuffer(client, 12, kMiB);
  MakeKernel(client, "look", {20, 12});
  Launch(client, kWidth);
  EXPECT_EQ(CopiedBySendingAway(client), kMiB);  // the image is only read
  const std::vector<std::uint32_t> row = Read(client, 12, kWidth * 16);
  EXPECT_EQ(std::memcmp(row.data(), flat.data(), kWidth * 16), 0);
  for (const std::uint32_t id : {20U, 21U, 12U, kKernel}) client.Send(wire::Release{.id = id});
  EXPECT_TRUE(WaitUntil([this] { return Books().made.count == 0; }));
}

TEST_F(ElasticImages, OverABufferAreTheBuffers) {
  RawClient client = Prepared();
  const std::vector<float> row = Picture(kWidth, 0.25F);
  MakeBuffer(client, 10, kMiB);
  client.Send(wire::WriteBuffer{
      .enqueue = {.queue = kQueue}, .buffer = 10, .content = wire::Blob::Inline(std::as_bytes(std::span(row)))});
  wire::CreateImage made = Like(20, CL_MEM_OBJECT_IMAGE1D_BUFFER, 0, 0);
  made.buffer = 10;
  client.Send(made);
  EXPECT_EQ(ReadImage(client, 20, 1, 1), row);
  EXPECT_EQ(CopiedBySendingAway(client), row.size() * 4);
  EXPECT_EQ(ReadImage(client, 20, 1, 1), row);
  const std::vector<float> other = Picture(kWidth, 9.25F);
  client.Send(wire::WriteImage{.enqueue = {.queue = kQueue},
                               .image = 20,
                               .region = {kWidth, 1, 1},
                               .content = wire::Blob::Inline(std::as_bytes(std::span(other)))});
  client.Send(wire::Release{.id = 20});
  EXPECT_EQ(CopiedBySendingAway(client), kMiB);
  const std::vector<std::uint32_t> back = Read(client, 10, other.size() * 4);
  EXPECT_EQ(std::memcmp(back.data(), other.data(), other.size() * 4), 0);
}

/// Small areas at the beginning of large buffers: slots are fought for, and little is copied. Checks all against a
/// model.
class ElasticRandom : public ElasticExecutor {
 protected:
  void RunSteps(std::uint32_t slots_max);
};

void ElasticRandom::RunSteps(std::uint32_t slots_max) {
  constexpr std::uint32_t kBuffers = 8, kFirst = 10;
  constexpr std::uint64_t kSize = 24 * kMiB, kArea = 64 * 1024, kInts = kArea / 4;
  Start(slots_max, slots_max);
  Order(slots_max, slots_max);
  RawClient client = Prepared();
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  std::vector<std::vector<std::uint32_t>> model(kBuffers);
  const auto part_of = [](std::uint32_t i) { return 100 + i; };
  const auto make = [&](std::uint32_t i) {
    MakeBuffer(client, kFirst + i, kSize);
    Fill(client, kFirst + i, kArea);
    client.Send(wire::CreateSubBuffer{.id = part_of(i), .parent = kFirst + i, .origin = 0, .size = kArea});
    model[i].assign(kInts, PatternOf(kFirst + i));
  };
  for (std::uint32_t i = 0; i < kBuffers; ++i) make(i);
  client.Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "add"});
  std::uint64_t checks = 0;
  for (int step = 0; step < 4'000; ++step) {
    const auto a = static_cast<std::uint32_t>(below(kBuffers)), b = static_cast<std::uint32_t>(below(kBuffers));
    const std::uint64_t at = below(kInts - 512), count = 1 + below(511);
    switch (below(20)) {
      case 0:
      case 1: Order(static_cast<std::uint32_t>(below(slots_max + 1)), slots_max); break;
      case 2:
      case 3: {  // what waits goes on, and is right
        const auto slots = static_cast<std::uint32_t>(1 + below(slots_max));
        Order(slots, slots);  // all that it holds: nothing waits for a turn
        const auto there = Read(client, kFirst + a, count * 4, at * 4);
        ASSERT_TRUE(std::equal(there.begin(), there.end(), model[a].begin() + static_cast<std::ptrdiff_t>(at)))
            << "buffer " << a << " in step " << step;
        ++checks;
        break;
      }
      case 4:
        if (below(10) == 0) {
          client.Send(wire::Release{.id = part_of(a)});
          client.Send(wire::Release{.id = kFirst + a});
          make(a);
        }
        break;
      case 5:
      case 6:
      case 7:
      case 8:
      case 9: {
        SetArg(client, 0, part_of(a));
        SetArg(client, 1, part_of(b));
        const auto n = static_cast<std::int32_t>(below(1000));
        SetNumber(client, 2, n);
        Launch(client, kInts);
        for (std::uint64_t i = 0; i < kInts; ++i) model[b][i] = model[a][i] + static_cast<std::uint32_t>(n);
        break;
      }
      case 10:
      case 11:
      case 12:
        if (a == b) break;
        client.Send(wire::CopyBuffer{.enqueue = {.queue = kQueue},
                                     .from = kFirst + a,
                                     .to = kFirst + b,
                                     .from_offset = at * 4,
                                     .to_offset = at * 4,
                                     .size = count * 4});
        std::copy_n(model[a].begin() + static_cast<std::ptrdiff_t>(at), count,
                    model[b].begin() + static_cast<std::ptrdiff_t>(at));
        break;
      default: {
        std::vector<std::uint32_t> values(count);
        for (auto& value : values) value = static_cast<std::uint32_t>(random());
        client.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue},
                                      .buffer = kFirst + a,
                                      .offset = at * 4,
                                      .content = wire::Blob::Inline(std::as_bytes(std::span(values)))});
        std::ranges::copy(values, model[a].begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    // A session that waits reads nothing: what is sent meanwhile has to fit into the ring.
    if (step % 200 == 199) {
      Order(slots_max, slots_max);
      ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
    }
  }
  Order(slots_max, slots_max);
  for (std::uint32_t i = 0; i < kBuffers; ++i) ASSERT_EQ(Read(client, kFirst + i, kArea), model[i]) << i;
  AwaitDone();
  const proto::ExecutorStatistics books = FreshBooks();
  EXPECT_LE(books.resident_slots, slots_max);
  EXPECT_GT(books.evictions, 100U);
  std::printf("%lu reads compared, %lu evictions, %lu MiB out, %lu MiB in\n", checks, books.evictions,
              books.copied_out.count >> 20, books.copied_in.count >> 20);
}

TEST_F(ElasticRandom, ContentsAreRight) { RunSteps(3); }

/// 192 MiB where there may be no more than 128: what is not on the device is read and written in host memory.
TEST_F(ElasticRandom, ContentsLargerThanTheDeviceAreRight) { RunSteps(2); }

class ElasticOverfull : public ElasticExecutor {
 protected:
  void SetUp() override { Start(1, 1); }
};

TEST_F(ElasticOverfull, IsReadAndWrittenInHostMemory) {
  RawClient client = Prepared();
  Order(1, 1);  // all that it may have is its own
  constexpr std::uint64_t kSize = 40 * kMiB;
  for (const std::uint32_t id : {10U, 11U}) MakeBuffer(client, id, kSize);
  std::vector<std::uint32_t> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(7 * i);
  const auto write = [&](std::uint32_t id, std::uint64_t at) {
    client.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue},
                                  .buffer = id,
                                  .offset = at,
                                  .content = wire::Blob::Inline(std::as_bytes(std::span(values)))});
  };
  write(10, 4 * kMiB);
  write(11, 0);
  EXPECT_EQ(Read(client, 10, 4000, 4 * kMiB), values);
  EXPECT_EQ(FreshBooks().resident_slots, 0U);
  // On the device it is read and written there; the other one stays where it is.
  MakeKernel(client, "more", {11});
  Launch(client, 1000);
  for (std::uint32_t& value : values) ++value;
  EXPECT_EQ(Read(client, 11, 4000), values);
  for (std::uint32_t& value : values) --value;
  EXPECT_EQ(Read(client, 10, 4000, 4 * kMiB), values);
  EXPECT_EQ(FreshBooks().resident_slots, 1U);
  EXPECT_EQ(Books().evictions, 0U);
  // What lies beyond a buffer's end is its error, as ever.
  client.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue},
                                .buffer = 10,
                                .offset = kSize - 4,
                                .content = wire::Blob::Inline(std::as_bytes(std::span(values)))});
  EXPECT_EQ(client.Finish(kQueue), CL_INVALID_VALUE);
}

}  // namespace
}  // namespace weir::testing
