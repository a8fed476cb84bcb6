// SPDX-License-Identifier: Apache-2.0
// Messages that would make a driver read or write outside its objects: the executor refuses them and goes on.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "opencl/channel/limits.h"
#include "opencl/executor/commands.h"
#include "tests/opencl/executor_process.h"

namespace weir {
namespace {

namespace wire = proto::cl;
using namespace testing::raw;
using testing::BodyAs;
using testing::RawClient;

class ExecutorGuards : public testing::ExecutorProcess {
 protected:
  static std::int32_t Build(RawClient& client, std::uint32_t program, const std::string& source,
                            std::string_view options = {}) {
    client.Send(
        wire::CreateProgram{.id = program, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(source))});
    client.Send(wire::Build{.request = 500, .program = program, .options = options});
    return client.AnswerTo(500).status;
  }
  template <typename T>
  static void SetData(RawClient& client, std::uint32_t index, const T& value) {
    client.Send(wire::SetArg{.kernel = kKernel,
                             .index = index,
                             .kind = static_cast<std::uint8_t>(wire::ArgKind::kData),
                             .data = std::as_bytes(std::span(&value, 1))});
  }
  static void SetObject(RawClient& client, std::uint32_t index, std::uint32_t object) {
    client.Send(wire::SetArg{.kernel = kKernel,
                             .index = index,
                             .kind = static_cast<std::uint8_t>(wire::ArgKind::kObject),
                             .object = object});
  }
  static std::int32_t Run(RawClient& client, std::uint32_t event) {
    client.Send(wire::NdRange{
        .enqueue = {.queue = kQueue, .event = event}, .kernel = kKernel, .dimensions = 1, .global = {1, 0, 0}});
    return client.EndOf(event);
  }
  static bool Works(RawClient& client) { return client.Finish(kQueue) == CL_SUCCESS; }
};

// -- Arguments -------------------------------------------------------------------------------------------------------

TEST_F(ExecutorGuards, BytesAreNotASamplerWhateverTheTypeName) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  ASSERT_EQ(Build(client, 20,
                  "typedef sampler_t other_t; kernel void k(other_t s, read_only image2d_t i, global float* o)"
                  "{ o[0] = read_imagef(i, s, (int2)(0, 0)).x; }"),
            CL_SUCCESS);
  client.Send(wire::CreateKernel{.id = kKernel, .program = 20, .name = "k"});
  SetData(client, 0, std::uint64_t{0x4141414141414141});
  EXPECT_EQ(Run(client, 30), CL_INVALID_ARG_VALUE);
  SetData(client, 0, std::uint64_t{0});
  EXPECT_EQ(Run(client, 31), CL_INVALID_ARG_VALUE);
  SetObject(client, 0, kOut);
  EXPECT_EQ(Run(client, 32), CL_INVALID_ARG_VALUE);
  EXPECT_TRUE(Works(client));
}

TEST_F(ExecutorGuards, ValuesOfTheProgramsOwnTypesAreSet) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  ASSERT_EQ(Build(client, 20,
                  "typedef struct { int a, b; } pair; typedef struct { long a[3]; } three; typedef ulong word;"
                  "kernel void k(global long* o, pair p, three t, word w) { o[0] = p.a + p.b + t.a[2] + w; }"),
            CL_SUCCESS);
  client.Send(wire::CreateKernel{.id = kKernel, .program = 20, .name = "k"});
  SetObject(client, 0, kOut);
  SetData(client, 1, std::array{1, 20});
  SetData(client, 2, std::array<std::int64_t, 3>{0, 0, 300});
  SetData(client, 3, std::uint64_t{4000});
  EXPECT_EQ(Run(client, 30), CL_COMPLETE);
  EXPECT_EQ(*reinterpret_cast<std::int64_t*>(client.arena()), 4321);
}

TEST_F(ExecutorGuards, AnEmptyValueIsRefused) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  ASSERT_EQ(Build(client, 20, "typedef ulong word; kernel void k(global long* o, word w) { o[0] = w; }"), CL_SUCCESS);
  client.Send(wire::CreateKernel{.id = kKernel, .program = 20, .name = "k"});
  SetObject(client, 0, kOut);
  client.Send(wire::SetArg{.kernel = kKernel, .index = 1, .kind = static_cast<std::uint8_t>(wire::ArgKind::kData)});
  EXPECT_EQ(Run(client, 30), CL_INVALID_ARG_SIZE);
  EXPECT_TRUE(Works(client));
}

// -- Builds ----------------------------------------------------------------------------------------------------------

TEST_F(ExecutorGuards, OptionsThatLackTheirArgumentAreInvalid) {
  RawClient client = Connected();
  Prepare(client);
  std::uint32_t program = 20;
  for (const char* options : {"-I", "-D", "-D X=1 -I", "-w -D ", "-x", "-I ", "-include", "foo", "-D X=\"a", "-"})
    EXPECT_EQ(Build(client, program++, "kernel void k(int n) {}", options), CL_INVALID_BUILD_OPTIONS) << options;
  EXPECT_EQ(Build(client, program, "kernel void k(int n) { int m = X; }", "-w  -D X=1 -DY -cl-std=CL1.2"), CL_SUCCESS);
}

TEST_F(ExecutorGuards, NoOptionsHideTheArgumentsOfAKernel) {
  RawClient client = Connected();
  Prepare(client);
  for (const std::string_view options : {std::string_view("-w -D"), std::string_view("-w\0 -w", 6)}) {
    static_cast<void>(Build(client, 20, "kernel void k(global int* o) {}", options));
    client.Send(wire::CreateKernel{.id = kKernel, .program = 20, .name = "k"});
    SetData(client, 0, std::uint64_t{0x4141414141414141});
    EXPECT_LT(Run(client, 30), 0);
  }
  EXPECT_TRUE(Works(client));
}

TEST_F(ExecutorGuards, AKernelsNameMayBeLong) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kOut, 0);
  const std::string name(256, 'a');
  client.Send(wire::CreateProgram{
      .id = 20,
      .context = kContext,
      .source = wire::Blob::Inline(wire::BytesOf("kernel void " + name + "(global int* o) { o[0] = 42; }"))});
  client.Send(wire::Build{.request = 2, .program = 20});
  const auto answer = client.AnswerTo(2);
  ASSERT_EQ(answer.status, CL_SUCCESS);
  const auto facts = BodyAs<wire::BuildFacts>(answer.body);
  ASSERT_EQ(facts.kernels.size(), 1U);
  EXPECT_EQ(facts.kernels[0].name, name);
  client.Send(wire::CreateKernel{.id = kKernel, .program = 20, .name = name});
  SetObject(client, 0, kOut);
  EXPECT_EQ(Run(client, 30), CL_COMPLETE);
  EXPECT_EQ(*reinterpret_cast<int*>(client.arena()), 42);
}

// -- Transfers -------------------------------------------------------------------------------------------------------

TEST_F(ExecutorGuards, BoxesOutsideTheirBufferAreRefused) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  MakeBuffer(client, kOut, kBytes);
  constexpr std::uint64_t kPitch = 1ULL << 44, kRows = (1ULL << 20) + 1;
  std::uint32_t event = 30;
  const std::vector<std::byte> content(16);
  client.Send(wire::ReadBufferRect{.enqueue = {.queue = kQueue, .event = event},
                                   .buffer = kIn,
                                   .region = {1, kRows, 1},
                                   .row_pitch = kPitch,
                                   .to = 4 * kBytes});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  client.Send(wire::CopyBufferRect{.enqueue = {.queue = kQueue, .event = event},
                                   .from = kIn,
                                   .to = kOut,
                                   .region = {1, kRows, 1},
                                   .from_row_pitch = kPitch,
                                   .to_row_pitch = kPitch});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  client.Send(wire::WriteBufferRect{.enqueue = {.queue = kQueue, .event = event},
                                    .buffer = kIn,
                                    .origin = {0, 1ULL << 20, 0},
                                    .region = {16, 1, 1},
                                    .row_pitch = kPitch,
                                    .content = wire::Blob::Inline(content)});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  client.Send(wire::WriteBuffer{.enqueue = {.queue = kQueue, .event = event},
                                .buffer = kIn,
                                .offset = ~std::uint64_t{0} - 7,
                                .content = wire::Blob::Inline(content)});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  client.Send(wire::CopyBuffer{.enqueue = {.queue = kQueue, .event = event},
                               .from = kIn,
                               .to = kOut,
                               .from_offset = ~std::uint64_t{0} - 7,
                               .size = 16});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  client.Send(wire::FillBuffer{.enqueue = {.queue = kQueue, .event = event},
                               .buffer = kIn,
                               .offset = ~std::uint64_t{0} - 15,
                               .size = 32,
                               .pattern = wire::BytesOf("0123456789abcdef")});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  EXPECT_TRUE(Works(client));
}

TEST_F(ExecutorGuards, BoxesOutsideTheirImageAreRefused) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0);
  constexpr std::uint32_t kImage = 10;
  client.Send(wire::CreateImage{.id = kImage,
                                .context = kContext,
                                .channel_order = CL_RGBA,
                                .channel_type = CL_UNSIGNED_INT8,
                                .type = CL_MEM_OBJECT_IMAGE2D,
                                .width = 16,
                                .height = 16});
  std::uint32_t event = 30;
  const std::vector<std::byte> content(64);
  constexpr std::uint64_t kFar = 1ULL << 62;
  const std::uint64_t regions[][2][3] = {{{kFar, 0, 0}, {4, 1, 1}},
                                         {{0, ~std::uint64_t{0}, 0}, {4, 1, 1}},
                                         {{15, 0, 0}, {2, 1, 1}},
                                         {{0, 0, 1}, {4, 1, 1}},
                                         {{0, 0, 0}, {0, 1, 1}}};
  for (const auto& [origin, region] : regions) {
    wire::WriteImage write{.enqueue = {.queue = kQueue, .event = event}, .image = kImage};
    write.content = wire::Blob::Inline(content);
    std::ranges::copy(origin, write.origin);
    std::ranges::copy(region, write.region);
    client.Send(write);
    EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
    wire::FillImage fill{.enqueue = {.queue = kQueue, .event = event}, .image = kImage};
    std::ranges::copy(origin, fill.origin);
    std::ranges::copy(region, fill.region);
    client.Send(fill);
    EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
    wire::CopyBufferToImage copy{.enqueue = {.queue = kQueue, .event = event}, .buffer = kIn, .image = kImage};
    std::ranges::copy(origin, copy.origin);
    std::ranges::copy(region, copy.region);
    client.Send(copy);
    EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  }
  client.Send(wire::CopyBufferToImage{.enqueue = {.queue = kQueue, .event = event},
                                      .buffer = kIn,
                                      .image = kImage,
                                      .offset = kBytes - 8,
                                      .region = {16, 1, 1}});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  client.Send(wire::CopyImageToBuffer{.enqueue = {.queue = kQueue, .event = event},
                                      .image = kImage,
                                      .buffer = kIn,
                                      .region = {16, 1, 1},
                                      .offset = kBytes - 8});
  EXPECT_EQ(client.EndOf(event++), CL_INVALID_VALUE);
  EXPECT_TRUE(Works(client));
}

TEST_F(ExecutorGuards, AnImageIsNoLargerThanItsBuffer) {
  RawClient client = Connected();
  Prepare(client);
  MakeBuffer(client, kIn, 0, 4096);
  client.Send(wire::CreateImage{.id = 10,
                                .context = kContext,
                                .channel_order = CL_RGBA,
                                .channel_type = CL_UNSIGNED_INT8,
                                .type = CL_MEM_OBJECT_IMAGE1D_BUFFER,
                                .width = 4096,
                                .buffer = kIn});
  client.Send(wire::FillImage{.enqueue = {.queue = kQueue, .event = 30}, .image = 10, .region = {1, 1, 1}});
  EXPECT_LT(client.EndOf(30), 0);
  EXPECT_TRUE(Works(client));
}

// -- Memory of the executor's own ------------------------------------------------------------------------------------

class ExecutorMemory : public ExecutorGuards {
 protected:
  [[nodiscard]] std::uint64_t Resident() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
    std::uint64_t size = 0, pages = 0;
    file >> size >> pages;
    return pages * 4096;
  }
  template <typename M>
  static void SendPatiently(RawClient& client, const M& message) {
    const std::vector<std::byte> bytes = wire::Encode(message);
    while (client.connection().channel.out.Reserve(bytes.size()) == nullptr)
      client.connection().channel.out.WaitForRoom(bytes.size(), milliseconds(100));
    client.SendBytes(bytes);
  }
};

TEST_F(ExecutorMemory, AMessageWithAGreatIdCostsLittle) {
  RawClient client = Connected();
  Prepare(client);
  const std::uint64_t before = Resident();
  client.Send(wire::CreateUserEvent{.id = opencl::kIdMax, .context = kContext});
  ASSERT_TRUE(Works(client));
  EXPECT_LT(Resident(), before + (4 << 20));
  client.Send(wire::CreateUserEvent{.id = opencl::kIdMax + 1, .context = kContext});
  EXPECT_TRUE(Works(client));
  EXPECT_FALSE(client.notices.empty());
}

TEST_F(ExecutorMemory, ContextsOfAClientAreBoundedByMemory) {
  RawClient other = Connected();
  Prepare(other);
  RawClient client = Connected();
  Prepare(client);
  constexpr std::uint32_t kMany = 12'000;
  for (std::uint32_t i = 0; i < kMany; ++i)
    SendPatiently(client, wire::CreateContext{.id = 100 + i, .devices = wire::IdList(&kDevice, 1)});
  EXPECT_TRUE(Works(client));
  EXPECT_EQ(std::ranges::count(client.notices, "clCreateContext") > 0, true);
  other.Send(wire::CreateContext{.id = 100, .devices = wire::IdList(&kDevice, 1)});
  other.Send(wire::CreateQueue{.id = 101, .context = 100, .device = kDevice});
  EXPECT_EQ(other.Finish(101), CL_SUCCESS);
  // What is released makes room again.
  for (std::uint32_t i = 0; i < kMany; ++i) SendPatiently(client, wire::Release{.id = 100 + i});
  client.Send(wire::CreateContext{.id = 100, .devices = wire::IdList(&kDevice, 1)});
  client.Send(wire::CreateQueue{.id = 101, .context = 100, .device = kDevice});
  EXPECT_EQ(client.Finish(101), CL_SUCCESS);
}

TEST_F(ExecutorMemory, CommandsThatWaitForTheClientAreBounded) {
  RawClient client = Connected();
  Prepare(client);
  const std::uint32_t unset = 40;
  client.Send(wire::CreateUserEvent{.id = unset, .context = kContext});
  constexpr std::uint64_t kMany = opencl::HostBudget::kSessionBytesMax / opencl::kPendingCommandBytes + 100;
  for (std::uint64_t i = 0; i < kMany; ++i)
    SendPatiently(client, wire::Marker{.enqueue = {.queue = kQueue, .waits = wire::IdList(&unset, 1)}});
  client.Send(wire::SetUserEvent{.id = unset, .status = CL_COMPLETE});
  EXPECT_EQ(client.Finish(kQueue), CL_OUT_OF_HOST_MEMORY) << "of the last ones";
  EXPECT_TRUE(Works(client)) << "what waited has made room";
}

TEST_F(ExecutorMemory, AProgramsTextIsBounded) {
  RawClient client = Connected();
  Prepare(client);
  constexpr std::uint64_t kText = 65 << 20;
  ASSERT_GT(client.arena_bytes(), kText);
  std::memset(client.arena(), ' ', kText);
  client.Send(wire::CreateProgram{.id = 20, .context = kContext, .source = wire::Blob::Arena(0, kText), .ticket = 9});
  EXPECT_TRUE(client.Freed(9));
  client.Send(wire::Build{.request = 2, .program = 20});
  EXPECT_EQ(client.AnswerTo(2).status, CL_OUT_OF_HOST_MEMORY);
  EXPECT_TRUE(Works(client));
}

// -- Descriptors -----------------------------------------------------------------------------------------------------

// A connection that can't be accepted stays in the queue, and the listener readable.
TEST_F(ExecutorGuards, WithoutDescriptorsAClientWaitsAndNothingSpins) {
  RawClient first = Connected();  // the executor is up
  Prepare(first);
  rlimit before{};
  ASSERT_EQ(::prlimit(pid_, RLIMIT_NOFILE, nullptr, &before), 0);
  rlim_t lowest_free = 0;
  while (std::filesystem::exists("/proc/" + std::to_string(pid_) + "/fd/" + std::to_string(lowest_free))) ++lowest_free;
  const rlimit none{.rlim_cur = lowest_free, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(pid_, RLIMIT_NOFILE, &none, nullptr), 0);
  const auto cpu = [this] {  // clock ticks, of all its threads
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string word;
    std::uint64_t ticks = 0;
    for (int field = 1; file >> word; ++field)
      if (field == 14 || field == 15) ticks += std::stoull(word);
    return ticks;
  };
  std::thread late([this] {
    RawClient client = Connected();
    Prepare(client);
    EXPECT_TRUE(Works(client));
  });
  ::usleep(100'000);
  const std::uint64_t at_first = cpu();
  ::usleep(1'000'000);
  const std::uint64_t ticks = cpu() - at_first;
  EXPECT_EQ(::prlimit(pid_, RLIMIT_NOFILE, &before, nullptr), 0);
  late.join();
  EXPECT_LT(ticks, static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)) / 4) << "it asked the listener again and again";
}

}  // namespace
}  // namespace weir
