// SPDX-License-Identifier: Apache-2.0
// Contents of buffers and images that have been in host memory and back, and what of them was copied.
#include <cstdlib>
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
  static constexpr std::uint32_t kBuffers = 8, kFirst = 10;
  static constexpr std::uint64_t kSize = 24 * kMiB, kArea = 64 * 1024, kInts = kArea / 4;
  static constexpr int kStepsPerEviction = 40;  // at most
  static std::uint32_t PartOf(std::uint32_t i) { return 100 + i; }

  void RunSteps(std::uint32_t slots_max);

 private:
  /// What a step uses: two buffers, which may be the same, and a range of their numbers.
  struct Step {
    std::uint32_t a, b;
    std::uint64_t at, count;
  };
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  std::uint32_t DrawnBuffer() { return static_cast<std::uint32_t>(Below(kBuffers)); }
  std::vector<std::uint32_t>::iterator ModelAt(std::uint32_t i, std::uint64_t at) {
    return model_[i].begin() + static_cast<std::ptrdiff_t>(at);
  }
  void Make(RawClient& client, std::uint32_t i);
  void TakeStep(RawClient& client, std::uint32_t slots_max);
  void Compare(RawClient& client, const Step& step, std::uint32_t slots_max);
  void Replace(RawClient& client, const Step& step);
  void Add(RawClient& client, const Step& step);
  void Copy(RawClient& client, const Step& step);
  void Write(RawClient& client, const Step& step);

  std::mt19937_64 random_;
  std::vector<std::vector<std::uint32_t>> model_ = std::vector<std::vector<std::uint32_t>>(kBuffers);
  std::uint64_t checks_ = 0;
};

void ElasticRandom::Make(RawClient& client, std::uint32_t i) {
  MakeBuffer(client, kFirst + i, kSize);
  Fill(client, kFirst + i, kArea);
  client.Send(wire::CreateSubBuffer{.id = PartOf(i), .parent = kFirst + i, .origin = 0, .size = kArea});
  model_[i].assign(kInts, PatternOf(kFirst + i));
}

/// What waits goes on, and is right.
void ElasticRandom::Compare(RawClient& client, const Step& step, std::uint32_t slots_max) {
  const auto slots = static_cast<std::uint32_t>(1 + Below(slots_max));
  Order(slots, slots);  // all that it holds: nothing waits for a turn
  const auto there = Read(client, kFirst + step.a, step.count * 4, step.at * 4);
  ASSERT_TRUE(std::equal(there.begin(), there.end(), ModelAt(step.a, step.at))) << "buffer " << step.a;
  ++checks_;
}

void ElasticRandom::Replace(RawClient& client, const Step& step) {
  client.Send(wire::Release{.id = PartOf(step.a)});
  client.Send(wire::Release{.id = kFirst + step.a});
  Make(client, step.a);
}

void ElasticRandom::Add(RawClient& client, const Step& step) {
  SetArg(client, 0, PartOf(step.a));
  SetArg(client, 1, PartOf(step.b));
  const auto n = static_cast<std::int32_t>(Below(1000));
  SetNumber(client, 2, n);
  Launch(client, kInts);
  for (std::uint64_t i = 0; i < kInts; ++i) model_[step.b][i] = model_[step.a][i] + static_cast<std::uint32_t>(n);
}

void ElasticRandom::Copy(RawClient& client, const Step& step) {
  client.Send(wire::CopyBuffer{.enqueue = {.queue = kQueue},
                               .from = kFirst + step.a,
                               .to = kFirst + step.b,
                               .from_offset = step.at * 4,
                               .to_offset = step.at * 4,
                               .size = step.count * 4});
  std::copy_n(ModelAt(step.a, step.at), step.count, ModelAt(step.b, step.at));
}

void ElasticRandom::Write(RawClient& client, const Step& step) {
  std::vector<std::uint32_t> values(step.count);
  for (auto& value : values) value = static_cast<std::uint32_t>(random_());
  client.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue},
                                .buffer = kFirst + step.a,
                                .offset = step.at * 4,
                                .content = wire::Blob::Inline(std::as_bytes(std::span(values)))});
  std::ranges::copy(values, ModelAt(step.a, step.at));
}

void ElasticRandom::TakeStep(RawClient& client, std::uint32_t slots_max) {
  const Step step{.a = DrawnBuffer(), .b = DrawnBuffer(), .at = Below(kInts - 512), .count = 1 + Below(511)};
  switch (Below(20)) {
    case 0:
    case 1: return Order(static_cast<std::uint32_t>(Below(slots_max + 1)), slots_max);
    case 2:
    case 3: return Compare(client, step, slots_max);
    case 4:
      if (Below(10) == 0) Replace(client, step);
      return;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9: return Add(client, step);
    case 10:
    case 11:
    case 12:
      if (step.a != step.b) Copy(client, step);
      return;
    default: return Write(client, step);
  }
}

void ElasticRandom::RunSteps(std::uint32_t slots_max) {
  Start(slots_max, slots_max);
  Order(slots_max, slots_max);
  RawClient client = Prepared();
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_.seed(seed);
  for (std::uint32_t i = 0; i < kBuffers; ++i) Make(client, i);
  client.Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "add"});
  const char* const wanted = std::getenv("WEIR_TEST_STEPS");  // scripts/test --long
  const int steps = wanted != nullptr ? std::atoi(wanted) : 2'000;
  for (int step = 0; step < steps; ++step) {
    TakeStep(client, slots_max);
    if (HasFatalFailure()) FAIL() << "in step " << step;
    // A session that waits reads nothing: what is sent meanwhile has to fit into the ring.
    if (step % 200 == 199) {
      Order(slots_max, slots_max);
      ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
    }
  }
  Order(slots_max, slots_max);
  for (std::uint32_t i = 0; i < kBuffers; ++i) ASSERT_EQ(Read(client, kFirst + i, kArea), model_[i]) << i;
  AwaitDone();
  const proto::ExecutorStatistics books = FreshBooks();
  EXPECT_LE(books.resident_slots, slots_max);
  EXPECT_GT(books.evictions, static_cast<std::uint64_t>(steps / kStepsPerEviction));
  std::printf("%lu reads compared, %lu evictions, %lu MiB out, %lu MiB in\n", checks_, books.evictions,
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
