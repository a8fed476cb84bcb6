// SPDX-License-Identifier: Apache-2.0
// A client whose connection moves between two executors on PoCL, by way of a relay and portals, and a model of what its
// commands do.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "platform/spawn.h"
#include "platform/unix_socket.h"
#include "proto/relay_control.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"
#include "tests/opencl/raw_client.h"

namespace weir::testing::moved {

namespace wire = proto::cl;
using Bytes8 = std::vector<std::uint8_t>;

inline constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kProgram = 4, kKernel = 5, kOther = 6,
                               kOtherQueue = 7, kSpareId = 8, kFirst = 10;
inline constexpr std::uint64_t kStaging = 0, kStagingBytes = 64 << 20, kRanges = kStagingBytes, kRangeBytes = 32 << 20;
inline constexpr const char* kSource =
    "kernel void stir(global uchar* a, uint add) {\n"
    "  size_t i = get_global_id(0); a[i] = (uchar)(a[i] * 5 + add + i); }\n";

class Process {
 public:
  explicit Process(std::vector<std::string> argv) {
    const auto pid = platform::Spawn({.argv = std::move(argv)});
    EXPECT_TRUE(pid) << pid.error().message;
    pid_ = *pid;
  }
  ~Process() { Kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void Kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

inline void AwaitSocket(const std::string& path) {
  EXPECT_TRUE(WaitUntil([&] { return static_cast<bool>(platform::ConnectSeqPacket(path)); })) << path;
}

/// An executor, and a portal that leads to it.
struct TestNode {
  explicit TestNode(const std::string& path)
      : folder(path), executor({WEIR_EXECUTOR, "--socket", path + "/game.sock", "--cpus", "2", "--idle-exit", "600"}) {
    AwaitSocket(path + "/game.sock");
    OpenPortal();
  }
  void OpenPortal() {
    const std::string port_file = folder + "/port";
    ::unlink(port_file.c_str());
    portal = std::make_unique<Process>(std::vector<std::string>{
        WEIR_PORTAL, "--plain", "--listen", "127.0.0.1:0", "--executors", folder, "--port-file", port_file, "--quiet"});
    std::string port;
    EXPECT_TRUE(WaitUntil([&] { return static_cast<bool>(std::getline(std::ifstream(port_file), port)); }));
    address = "127.0.0.1:" + port;
  }
  const std::string folder;
  Process executor;
  std::unique_ptr<Process> portal;
  std::string address;
};

/// Two nodes, and a tenant's relay.
struct Ground {
  Ground() {
    ::setenv("POCL_CACHE_DIR", (folder / "cache").c_str(), 0);
    for (int i = 0; i < 2; ++i) {
      const std::string path = folder / std::to_string(i);
      std::filesystem::create_directory(path);
      nodes[i] = std::make_unique<TestNode>(path);
    }
    OpenRelay();
  }
  void OpenRelay() {
    const std::string socket = folder / "here.sock";
    relay.reset();
    ::unlink(socket.c_str());
    relay = std::make_unique<Process>(std::vector<std::string>{WEIR_RELAY, "--plain", "--vgpu", "game", "--node",
                                                               nodes[0]->address, "--socket", socket});
    AwaitSocket(socket + proto::kControlSuffix);
    at = 0;
  }
  using Figures = std::map<std::string, std::uint64_t>;
  Result<Figures> MoveTo(const std::string& address) {
    WEIR_TRY(const platform::Fd control, platform::ConnectSeqPacket(folder / "here.sock" + proto::kControlSuffix));
    const std::string text = proto::RequestText({.node = address, .vgpu = "game"});
    WEIR_TRY_STATUS(platform::SendPacket(control.get(), std::as_bytes(std::span(text))));
    if (!platform::WaitReadable(control.get(), 60'000))
      return Fail(Errc::kTimeout, "the relay has not answered a request to move within 60 s");
    WEIR_TRY(const auto packet, platform::ReceivePacket(control.get(), proto::kControlBytesMax));
    WEIR_TRY(std::string said,
             proto::AnswerFrom({reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()}));
    Figures figures;
    for (const auto& [name, number] : proto::TakeFigures(said)) figures[name] = number;
    return figures;
  }
  /// To the other node.
  Figures Move() {
    auto moved = MoveTo(nodes[1 - at]->address);
    EXPECT_TRUE(moved) << moved.error().message;
    if (!moved) return {};
    at = 1 - at;
    return *moved;
  }

  TempFolder folder;
  std::unique_ptr<TestNode> nodes[2];
  std::unique_ptr<Process> relay;
  int at = 0;
};

/// What the client has, by a model of what each command does.
struct ModelMemory {
  std::uint32_t id = 0;
  std::uint64_t flags = 0, offset = 0;
  std::uint64_t width = 0, rows = 0, slices = 1;  // of an image of four bytes a pixel; 0: a buffer
  Bytes8 bytes{};
  [[nodiscard]] bool image() const { return width > 0; }
  [[nodiscard]] bool readable() const { return (flags & (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY)) == 0; }
  [[nodiscard]] bool writable() const { return (flags & (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY)) == 0; }
};

inline constexpr std::uint64_t kHostAccess[] = {0, CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY,
                                                CL_MEM_HOST_WRITE_ONLY};

class MovedClient : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ground = new Ground; }
  static void TearDownTestSuite() { delete std::exchange(ground, nullptr); }
  void SetUp() override {
    ground->OpenRelay();  // which counts no bytes of a client that has only just left
    Connect();
  }

  void Connect() {
    auto connection = opencl::Connect(ground->folder / "here.sock", "migration_test");
    ASSERT_TRUE(connection) << connection.error().message;
    client.emplace(std::move(*connection));
    memories.clear();
    next_id = kFirst;
    ASSERT_EQ(client->AnswerTo(0).status, CL_SUCCESS);
    client->Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&kDevice, 1)});
    client->Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice});
    client->Send(
        wire::CreateProgram{.id = kProgram, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(kSource))});
    client->Send(wire::Build{.request = 1, .program = kProgram});
    ASSERT_EQ(client->AnswerTo(1).status, CL_SUCCESS);
    client->Send(wire::CreateKernel{.id = kKernel, .program = kProgram, .name = "stir"});
  }

  // -- What a client may do

  std::uint64_t FreeRange() const {
    for (std::uint64_t range = 0;; ++range) {
      const std::uint64_t offset = kRanges + range * kRangeBytes;
      const auto is_there = [&](const ModelMemory& memory) { return memory.offset == offset; };
      if (std::ranges::none_of(memories, is_there)) return offset;
    }
  }
  /// Filled from its beginning on, or with a pattern at once.
  ModelMemory& MakeBuffer(std::uint64_t bytes, std::uint64_t flags, std::uint8_t value, bool filled,
                          std::uint32_t context = kContext, std::uint32_t queue = kQueue) {
    ModelMemory& made = memories.emplace_back(
        ModelMemory{.id = next_id++, .flags = flags, .offset = FreeRange(), .bytes = Bytes8(bytes, value)});
    if (filled) std::memset(client->arena() + made.offset, value, bytes);
    client->Send(wire::CreateBuffer{.id = made.id,
                                    .context = context,
                                    .flags = flags,
                                    .size = bytes,
                                    .offset = made.offset,
                                    .filled = static_cast<std::uint8_t>(filled)});
    if (!filled) Fill(made, 0, bytes, value, queue);
    return made;
  }
  void Fill(ModelMemory& buffer, std::uint64_t at, std::uint64_t size, std::uint8_t value,
            std::uint32_t queue = kQueue) {
    const auto pattern = static_cast<std::byte>(value);
    client->Send(wire::FillBuffer{
        .enqueue = {.queue = queue}, .buffer = buffer.id, .offset = at, .size = size, .pattern = {&pattern, 1}});
    std::fill_n(buffer.bytes.begin() + static_cast<std::ptrdiff_t>(at), size, value);
  }
  void Write(ModelMemory& buffer, std::uint64_t at, const Bytes8& content) {
    client->Send(wire::WriteBuffer{.enqueue = {.queue = kQueue},
                                   .buffer = buffer.id,
                                   .offset = at,
                                   .content = wire::Blob::Inline(std::as_bytes(std::span(content)))});
    std::ranges::copy(content, buffer.bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void Copy(const ModelMemory& from, ModelMemory& to, std::uint64_t from_at, std::uint64_t to_at, std::uint64_t size) {
    client->Send(wire::CopyBuffer{.enqueue = {.queue = kQueue},
                                  .from = from.id,
                                  .to = to.id,
                                  .from_offset = from_at,
                                  .to_offset = to_at,
                                  .size = size});
    std::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>(from_at), size,
                to.bytes.begin() + static_cast<std::ptrdiff_t>(to_at));
  }
  void Stir(ModelMemory& buffer, std::uint64_t items, std::uint32_t add) {
    client->Send(wire::SetArg{.kernel = kKernel, .index = 0, .kind = 1, .object = buffer.id});
    client->Send(wire::SetArg{.kernel = kKernel, .index = 1, .kind = 0, .data = std::as_bytes(std::span(&add, 1))});
    client->Send(
        wire::NdRange{.enqueue = {.queue = kQueue}, .kernel = kKernel, .dimensions = 1, .global = {items, 0, 0}});
    for (std::uint64_t i = 0; i < items; ++i)
      buffer.bytes[i] = static_cast<std::uint8_t>(buffer.bytes[i] * 5 + add + i);
  }
  /// Through a part of it.
  void FillPart(ModelMemory& buffer, std::uint64_t at, std::uint64_t size, std::uint8_t value) {
    client->Send(wire::CreateSubBuffer{
        .id = kSpareId, .parent = buffer.id, .flags = CL_MEM_READ_WRITE, .origin = at, .size = size});
    const auto pattern = static_cast<std::byte>(value);
    client->Send(
        wire::FillBuffer{.enqueue = {.queue = kQueue}, .buffer = kSpareId, .size = size, .pattern = {&pattern, 1}});
    client->Send(wire::Release{.id = kSpareId});
    std::fill_n(buffer.bytes.begin() + static_cast<std::ptrdiff_t>(at), size, value);
  }
  ModelMemory& MakeImage(std::uint32_t type, std::uint64_t width, std::uint64_t rows, std::uint64_t slices,
                         std::uint64_t flags, std::uint8_t value) {
    ModelMemory& made = memories.emplace_back(ModelMemory{.id = next_id++,
                                                          .flags = flags,
                                                          .width = width,
                                                          .rows = rows,
                                                          .slices = slices,
                                                          .bytes = Bytes8(4 * width * rows * slices, value)});
    const bool array = type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    client->Send(wire::CreateImage{.id = made.id,
                                   .context = kContext,
                                   .flags = flags,
                                   .channel_order = CL_RGBA,
                                   .channel_type = CL_UNSIGNED_INT8,
                                   .type = type,
                                   .width = width,
                                   .height = type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? 0 : rows,
                                   .depth = type == CL_MEM_OBJECT_IMAGE3D ? slices : 0,
                                   .array_size = !array                                ? 0
                                                 : type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? rows
                                                                                       : slices});
    wire::FillImage fill{.enqueue = {.queue = kQueue}, .image = made.id, .region = {width, rows, slices}};
    std::ranges::fill(fill.colour, std::uint32_t{value});
    client->Send(fill);
    return made;
  }
  /// A row of some slice, from a pixel on, out of a buffer.
  void CopyToImage(const ModelMemory& from, ModelMemory& image, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
    const std::uint64_t bytes = 4 * (image.width - x);
    client->Send(wire::CopyBufferToImage{.enqueue = {.queue = kQueue},
                                         .buffer = from.id,
                                         .image = image.id,
                                         .origin = {x, y, z},
                                         .region = {image.width - x, 1, 1}});
    std::copy_n(from.bytes.begin(), bytes,
                image.bytes.begin() + static_cast<std::ptrdiff_t>(4 * ((z * image.rows + y) * image.width + x)));
  }
  void Release(std::size_t index) {
    // Its range is not used again before the executor has let go of it, as a client's library would wait for its
    // ticket.
    client->Send(wire::Release{.id = memories[index].id});
    ASSERT_EQ(client->Finish(kQueue), CL_SUCCESS);
    memories.erase(memories.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // -- What it then has

  /// By a copy, which no flag forbids.
  Bytes8 Read(const ModelMemory& memory, std::uint32_t context = kContext, std::uint32_t queue = kQueue) {
    client->Send(wire::CreateBuffer{
        .id = kSpareId, .context = context, .size = memory.bytes.size(), .offset = kStaging + (32 << 20)});
    if (memory.image())
      client->Send(wire::CopyImageToBuffer{.enqueue = {.queue = queue},
                                           .image = memory.id,
                                           .buffer = kSpareId,
                                           .region = {memory.width, memory.rows, memory.slices}});
    else
      client->Send(wire::CopyBuffer{
          .enqueue = {.queue = queue}, .from = memory.id, .to = kSpareId, .size = memory.bytes.size()});
    client->Send(
        wire::ReadBuffer{.enqueue = {.queue = queue}, .buffer = kSpareId, .size = memory.bytes.size(), .to = kStaging});
    client->Send(wire::Release{.id = kSpareId});
    EXPECT_EQ(client->Finish(queue), CL_SUCCESS);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(client->arena() + kStaging);
    return {begin, begin + memory.bytes.size()};
  }
  void ExpectAllRight() {
    for (const ModelMemory& memory : memories) {
      const Bytes8 there = Read(memory);
      const auto wrong = std::ranges::mismatch(there, memory.bytes).in1 - there.begin();
      ASSERT_TRUE(there == memory.bytes) << (memory.image() ? "image " : "buffer ") << memory.id << " of "
                                         << memory.bytes.size() << " bytes, flags " << memory.flags << ": byte "
                                         << wrong << " is another one";
    }
    EXPECT_TRUE(client->notices.empty()) << client->notices.front();
  }
  [[nodiscard]] std::uint64_t AllBytes() const {
    std::uint64_t bytes = 0;
    for (const ModelMemory& memory : memories) bytes += memory.bytes.size();
    return bytes;
  }
  void DrawAndDo(Prng& draw);

  static inline Ground* ground = nullptr;
  std::optional<RawClient> client;
  std::deque<ModelMemory> memories;
  std::uint32_t next_id = kFirst;
};

inline void MovedClient::DrawAndDo(Prng& draw) {
  const auto upto = [&](std::uint64_t most) { return draw.Next() % (most + 1); };
  std::vector<std::size_t> buffers, images;
  for (std::size_t i = 0; i < memories.size(); ++i) (memories[i].image() ? images : buffers).push_back(i);
  const auto value = static_cast<std::uint8_t>(draw.Next());
  const std::uint64_t flags = CL_MEM_READ_WRITE | kHostAccess[upto(3) * upto(1)];
  if (buffers.size() < 2 || (buffers.size() < 6 && upto(9) == 0)) {
    MakeBuffer(1 + upto(3 << 20), flags, value, upto(1) == 0);
    return;
  }
  ModelMemory& buffer = memories[buffers[upto(buffers.size() - 1)]];
  const std::uint64_t size = buffer.bytes.size(), at = upto(size - 1);
  switch (upto(11)) {
    case 0: return Release(upto(memories.size() - 1));
    case 1:
    case 2:
      if (buffer.writable()) Write(buffer, at, Bytes8(std::min<std::uint64_t>(size - at, 1 + upto(5000)), value));
      return;
    case 3: return Fill(buffer, at, 1 + upto(size - at - 1), value);
    case 4:
    case 5: {
      ModelMemory& to = memories[buffers[upto(buffers.size() - 1)]];
      if (&to == &buffer) return;
      const std::uint64_t to_at = upto(to.bytes.size() - 1);
      return Copy(buffer, to, at, to_at, std::min(size - at, to.bytes.size() - to_at));
    }
    case 6:
    case 7: return Stir(buffer, std::min<std::uint64_t>(size, 1 + upto(200'000)), value);
    case 8: {
      const std::uint64_t origin = at / 4096 * 4096;
      return FillPart(buffer, origin, 1 + upto(size - origin - 1), value);
    }
    case 9:
      if (images.size() < 3) MakeImage(CL_MEM_OBJECT_IMAGE2D, 1 + upto(500), 1 + upto(400), 1, flags, value);
      return;
    case 10:
      if (!images.empty()) {
        ModelMemory& image = memories[images[upto(images.size() - 1)]];
        if (size >= 4 * image.width) CopyToImage(buffer, image, upto(image.width - 1), upto(image.rows - 1), 0);
      }
      return;
    default: EXPECT_EQ(client->Finish(kQueue), CL_SUCCESS);
  }
}

}  // namespace weir::testing::moved
