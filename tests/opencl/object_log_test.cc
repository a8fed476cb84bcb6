// SPDX-License-Identifier: Apache-2.0
// A session made anew on a second executor, on PoCL: what it does next gives the same on both.
#include "opencl/log/object_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "platform/spawn.h"
#include "tests/opencl/raw_client.h"

namespace weir {
namespace {

namespace wire = proto::cl;
using testing::RawClient;

constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kProgram = 4, kKernel = 5, kIn = 6, kOut = 7, kPart = 8,
                        kImage = 9, kSampler = 10, kUser = 11, kEnded = 12, kPixels = 13;
constexpr std::uint64_t kBytes = 1 << 20, kItems = 256;
constexpr const char* kSource =
    "#include \"more.h\"\n"
    "kernel void add(global const int* in, global int* out, int n, local int* s) {\n"
    "  size_t i = get_global_id(0); s[0] = 0; out[i] += MORE * in[i] + n; }\n"
    "kernel void pixels(read_only image2d_t from, sampler_t how, global int* out) {\n"
    "  int2 at = (int2)(get_global_id(0) % 16, get_global_id(0) / 16);\n"
    "  out[get_global_id(0)] += (int)read_imageui(from, how, at).x; }\n";

class OnTwoExecutors : public ::testing::Test {
 protected:
  struct Side {
    pid_t pid = 0;
    std::string folder;
    std::optional<RawClient> client;
  };
  void SetUp() override {
    for (Side& side : sides) Start(side);
  }
  void TearDown() override {
    for (Side& side : sides) {
      side.client.reset();
      ::kill(side.pid, SIGTERM);
      int status = 0;
      ::waitpid(side.pid, &status, 0);
      std::filesystem::remove_all(side.folder);
    }
  }
  static void Start(Side& side) {
    side.folder = (std::filesystem::temp_directory_path() / "weir-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(side.folder.data()), nullptr);
    const auto pid = platform::Spawn({.argv = {WEIR_EXECUTOR, "--socket", side.folder + "/s", "--cpus", "2"}});
    ASSERT_TRUE(pid) << pid.error().message;
    side.pid = *pid;
    for (int attempt = 0; !side.client; ++attempt) {
      auto connection = opencl::Connect(side.folder + "/s", "object_log_test");
      if (connection) side.client.emplace(std::move(*connection));
      ASSERT_LT(attempt, 500);
      if (!side.client) ::usleep(20'000);
    }
  }

  RawClient& old_client() { return *sides[0].client; }
  RawClient& new_client() { return *sides[1].client; }
  /// Tells the log of an answer that the raw client has taken apart.
  void TellAnswer(std::uint32_t request, const RawClient::Answer& answer) {
    ASSERT_TRUE(
        log.FromExecutor(wire::Encode(wire::Reply{.request = request, .status = answer.status, .part = answer.body})));
  }
  template <typename M>
  void Send(const M& message) {
    ASSERT_TRUE(log.FromClient(wire::Encode(message)));
    old_client().Send(message);
  }
  void Ask(const wire::Build& build) {
    Send(build);
    const auto answer = old_client().AnswerTo(build.request);
    ASSERT_EQ(answer.status, CL_SUCCESS);
    TellAnswer(build.request, {.status = answer.status, .body = {}});
  }
  void SetObject(std::uint32_t kernel, std::uint32_t index, std::uint32_t object) {
    Send(wire::SetArg{.kernel = kernel, .index = index, .kind = 1, .object = object});
  }
  /// Asks what the log wants to know.
  void Settle() {
    for (const auto& question : log.Questions()) {
      wire::Finish finish;
      wire::Watch watch;
      wire::Header header;
      wire::ReadHeader(question, header);
      old_client().SendBytes(question);
      if (header.op == wire::Finish::kOp) {
        ASSERT_TRUE(wire::Decode(question, finish));
        TellAnswer(finish.request, old_client().AnswerTo(finish.request));
      } else {
        ASSERT_TRUE(wire::Decode(question, watch));
        old_client().EndOf(watch.event);
        ASSERT_TRUE(log.FromExecutor(wire::Encode(old_client().Ended(watch.event))));
      }
    }
  }
  void MoveContents() {
    constexpr std::uint64_t kStaging = 16 << 20;
    for (const auto& memory : log.memories()) {
      if (!memory.must_move()) continue;
      wire::Blob content = wire::Blob::Arena(kStaging, memory.image ? 16 * 16 * 4 : memory.size);
      if (memory.image) {
        wire::ReadImage read{.enqueue = {.queue = kQueue}, .image = memory.id, .to = kStaging, .size = content.size};
        std::ranges::copy(memory.extent, read.region);
        old_client().Send(read);
      } else {
        old_client().Send(
            wire::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = memory.id, .size = memory.size, .to = kStaging});
      }
      ASSERT_EQ(old_client().Finish(kQueue), CL_SUCCESS);
      std::memcpy(new_client().arena() + kStaging, old_client().arena() + kStaging, content.size);
      if (memory.image) {
        wire::WriteImage write{.enqueue = {.queue = kQueue}, .image = memory.id, .content = content};
        std::ranges::copy(memory.extent, write.region);
        new_client().Send(write);
      } else {
        new_client().Send(wire::WriteBuffer{.enqueue = {.queue = kQueue}, .buffer = memory.id, .content = content});
      }
      ASSERT_EQ(new_client().Finish(kQueue), CL_SUCCESS);
    }
  }
  /// What both kernels make of it now, and what they have left in the buffer that was written to through its part.
  static std::vector<int> Launched(RawClient& client) {
    const std::uint32_t waits[] = {kEnded, kUser};
    client.Send(wire::NdRange{.enqueue = {.queue = kQueue, .event = 40, .waits = wire::IdList(waits, 2)},
                              .kernel = kKernel,
                              .dimensions = 1,
                              .global = {kItems, 0, 0}});
    client.Send(
        wire::NdRange{.enqueue = {.queue = kQueue}, .kernel = kPixels, .dimensions = 1, .global = {kItems, 0, 0}});
    client.Send(wire::SetUserEvent{.id = kUser, .status = CL_COMPLETE});
    EXPECT_EQ(client.EndOf(40), CL_COMPLETE);
    client.Send(wire::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = kOut, .size = 8192, .to = 8 << 20});
    EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
    const int* numbers = reinterpret_cast<const int*>(client.arena() + (8 << 20));
    return {numbers, numbers + 8192 / sizeof(int)};
  }

  Side sides[2];
  opencl::ObjectLog log{
      [this](std::uint64_t offset, std::uint64_t size) { return wire::ByteView(old_client().arena() + offset, size); }};
};

TEST_F(OnTwoExecutors, ASessionContinuesUnchanged) {
  TellAnswer(0, old_client().AnswerTo(0));
  Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&kDevice, 1)});
  Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice});
  Send(wire::CreateProgram{.id = kProgram, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(kSource))});
  wire::Build build{.request = 1, .program = kProgram, .options = "-DUNUSED"};
  build.headers.push_back({.name = "more.h", .content = wire::Blob::Inline(wire::BytesOf("#define MORE 3\n"))});
  Ask(build);
  for (const std::uint32_t id : {kIn, kOut}) {
    Send(wire::CreateBuffer{
        .id = id, .context = kContext, .flags = CL_MEM_READ_WRITE, .size = kBytes, .offset = id * kBytes});
    const auto zero = std::byte{0};
    Send(wire::FillBuffer{.enqueue = {.queue = kQueue}, .buffer = id, .size = kBytes, .pattern = {&zero, 1}});
  }
  Send(wire::CreateSubBuffer{.id = kPart, .parent = kOut, .flags = CL_MEM_READ_WRITE, .origin = 4096, .size = 4096});
  std::vector<std::uint8_t> pixels(16 * 16 * 4);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i / 4);
  Send(wire::CreateImage{.id = kImage,
                         .context = kContext,
                         .flags = CL_MEM_READ_ONLY,
                         .channel_order = CL_RGBA,
                         .channel_type = CL_UNSIGNED_INT8,
                         .type = CL_MEM_OBJECT_IMAGE2D,
                         .width = 16,
                         .height = 16,
                         .content = wire::Blob::Inline(std::as_bytes(std::span(pixels)))});
  Send(wire::CreateSampler{
      .id = kSampler, .context = kContext, .addressing = CL_ADDRESS_NONE, .filter = CL_FILTER_NEAREST});
  Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "add"});
  Send(wire::CreateKernel{.id = kPixels, .program = kProgram, .name = "pixels"});
  SetObject(kKernel, 0, kIn);
  SetObject(kKernel, 1, kPart);
  const int five = 5;
  Send(wire::SetArg{.kernel = kKernel, .index = 2, .kind = 0, .data = std::as_bytes(std::span(&five, 1))});
  Send(wire::SetArg{.kernel = kKernel, .index = 3, .kind = 2, .size = 16});
  SetObject(kPixels, 0, kImage);
  SetObject(kPixels, 1, kSampler);
  SetObject(kPixels, 2, kOut);
  std::vector<int> in(kItems);
  for (int i = 0; i < static_cast<int>(kItems); ++i) in[static_cast<std::size_t>(i)] = 7 * i;
  Send(wire::WriteBuffer{
      .enqueue = {.queue = kQueue}, .buffer = kIn, .content = wire::Blob::Inline(std::as_bytes(std::span(in)))});
  Send(wire::NdRange{
      .enqueue = {.queue = kQueue, .event = kEnded}, .kernel = kKernel, .dimensions = 1, .global = {kItems, 0, 0}});
  Send(wire::NdRange{.enqueue = {.queue = kQueue}, .kernel = kPixels, .dimensions = 1, .global = {kItems, 0, 0}});
  Send(wire::CreateUserEvent{.id = kUser, .context = kContext});
  Send(wire::Release{.id = kProgram});
  Send(wire::Release{.id = kContext});
  EXPECT_EQ(log.in_flight().commands, 5U);
  Settle();
  ASSERT_TRUE(log.in_flight().none());

  const auto replay = log.MakeReplay([](wire::ByteView) { return std::nullopt; });
  ASSERT_TRUE(replay);
  for (const auto& message : replay->messages) new_client().SendBytes(message);
  for (const auto& answer : replay->answers) EXPECT_EQ(new_client().AnswerTo(answer.request).status, answer.status);
  EXPECT_EQ(new_client().Finish(kQueue), CL_SUCCESS);
  EXPECT_TRUE(new_client().notices.empty());
  MoveContents();

  const std::vector<int> there = Launched(new_client()), here = Launched(old_client());
  EXPECT_EQ(there, here);
  EXPECT_EQ(here[1024], 2 * 5);
  EXPECT_EQ(here[1024 + 9], 2 * (3 * 63 + 5));
  EXPECT_EQ(here[100], 2 * 100);
}

}  // namespace
}  // namespace weir
