// SPDX-License-Identifier: Apache-2.0
#include "remote/relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "opencl/channel/cl.h"
#include "opencl/channel/handshake.h"
#include "platform/clock.h"
#include "platform/unix_socket.h"
#include "proto/opencl_messages.h"
#include "remote/handshake.h"
#include "remote/pump.h"
#include "tests/harness/child.h"
#include "tests/harness/pump_road.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/tls_pair.h"
#include "tests/harness/wait_until.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;
using testing::Child;

// A daemon's relay has a socket that every user can open, because executors run as the users that own their vGPUs.
TEST(DaemonsRelay, ServesOnlyChildrenOfTheDaemon) {
  const testing::TempFolder folder;
  const std::string path = folder / "s";
  int go[2] = {};
  ASSERT_EQ(::pipe(go), 0);
  // Stands for the daemon; its child stands for an executor.
  Child daemon([&] {
    char byte = 0;
    if (::read(go[0], &byte, 1) != 1) return 2;
    return Child([&] { return opencl::Connect(path, "executor") ? 0 : 1; }).Wait();
  });
  testing::SocketPair sockets = testing::ConnectedSockets();
  const auto portal = net::AdoptTcp(std::move(sockets.server));
  ASSERT_TRUE(SendWelcome(*portal, "game", {.bytes = 64 << 20}, platform::NowNs()));
  std::atomic<bool> ready{false};
  RelayOptions options;
  options.listener = *platform::ListenSeqPacket(path, 0666);
  options.control = *platform::ListenSeqPacket(folder / "control", 0600);
  options.connect = [&sockets](const proto::MoveRequest&) -> Result<std::unique_ptr<net::Stream>> {
    if (!sockets.client) return Fail(Errc::kUnavailable, "this node takes one connection");
    return net::AdoptTcp(std::move(sockets.client));
  };
  options.parent = daemon.pid();
  options.for_children = true;
  options.when_ready = [&ready] { ready = true; };
  std::thread relay([&] { EXPECT_TRUE(RunRelay(std::move(options))); });
  EXPECT_TRUE(testing::WaitUntil([&] { return ready.load(); }));
  EXPECT_FALSE(opencl::Connect(path, "stranger")) << "not a child of the daemon";
  EXPECT_EQ(::write(go[1], "1", 1), 1);
  EXPECT_EQ(daemon.Wait(), 0);
  relay.join();
  for (const int end : go) ::close(end);
}

// -- A migration from a node that reads nothing -----------------------------------------------------------------------

constexpr std::uint64_t kNodeArenaBytes = 64 << 20, kWrittenBytes = 16 << 20;
const std::uint32_t kOnlyDevice = 1;
constexpr std::uint32_t kRelayQueue = 2, kRelayContext = 20, kRelayBuffer = 30, kMarkerQueue = 777;
/// Events of commands that a node does not end. A question about each of them is 16 bytes long.
constexpr std::uint32_t kFirstUntold = 1000, kUntold = 50'000;

/// A node's end of a connection: admits the relay, and describes one device to its client.
std::unique_ptr<net::Stream> Admit(platform::Fd server) {
  auto portal = net::AdoptTcp(std::move(server));
  cl::PlatformFacts facts;
  facts.devices.push_back({.id = kOnlyDevice, .facts = {}});
  std::vector<std::byte> body(1024);
  cl::FieldWriter writer(body);
  cl::PlatformFacts::Fields(facts, writer);
  body.resize(writer.size());
  const std::vector<std::vector<std::byte>> replies{
      cl::Encode(cl::Reply{.request = 0, .status = CL_SUCCESS, .part = body})};
  const std::atomic<bool> stop{false};
  EXPECT_TRUE(SendWelcome(*portal, "game", {.bytes = kNodeArenaBytes}, platform::NowNs()));
  EXPECT_TRUE(SendMessages(*portal, replies, stop));
  return portal;
}

/// What a node reads, until a Flush of kMarkerQueue.
class ReadingNode final : public Sink {
 public:
  Status Take(std::span<std::byte> message) override {
    cl::Header header;
    cl::Flush flush;
    if (!cl::ReadHeader(message, header)) return Fail(Errc::kProtocol, "not a message");
    watches += header.op == cl::Watch::kOp ? 1 : 0;
    if (header.op == cl::Flush::kOp && cl::Decode(message, flush)) marked = marked || flush.queue == kMarkerQueue;
    return Ok();
  }
  Result<std::span<std::byte>> Room(std::uint64_t offset, std::size_t bytes) override {
    if (offset > arena_.size() || bytes > arena_.size() - offset) return Fail(Errc::kProtocol, "outside");
    return std::span(arena_).subspan(offset, bytes);
  }
  bool marked = false;
  std::uint32_t watches = 0;  // questions about events

 private:
  std::vector<std::byte> arena_ = std::vector<std::byte>(kWrittenBytes);
};

/// Whether the other side has ended the connection. What it has sent is discarded.
bool OtherSideHasEnded(net::Stream& stream) {
  std::vector<std::byte> bytes(4096);
  for (;;) {
    const auto came = stream.TryReceive(bytes);
    if (!came) return true;
    if (*came == 0) return false;
  }
}

class MoveFromAStoppedNode : public ::testing::Test {
 protected:
  MoveFromAStoppedNode() {
    RelayOptions options;
    options.listener = *platform::ListenSeqPacket(path_, 0600);
    options.control = *platform::ListenSeqPacket(path_ + proto::kControlSuffix, 0600);
    options.connect = [this](const proto::MoveRequest& to) -> Result<std::unique_ptr<net::Stream>> {
      testing::SocketPair sockets = testing::ConnectedSockets();
      (to.node == "new:1" ? new_ : old_) = Admit(std::move(sockets.server));
      if (to.node != "new:1") to_old_ = sockets.client.get();
      return net::AdoptTcp(std::move(sockets.client));
    };
    options.node = {.node = "old:1", .vgpu = "game"};
    options.parent = parent_.pid();
    options.old_reads_within = milliseconds(300);
    relay_ = std::thread([given = std::move(options)]() mutable { EXPECT_TRUE(RunRelay(std::move(given))); });
  }
  ~MoveFromAStoppedNode() override {
    in_.reset();
    old_.reset();  // otherwise the relay might wait until it reads
    connection_.reset();
    EXPECT_EQ(::write(go_[1], "1", 1), 1);
    EXPECT_EQ(parent_.Wait(), 0);
    relay_.join();
    for (const int end : go_) ::close(end);
  }
  static std::array<int, 2> MakePipe() {
    std::array<int, 2> ends{};
    WEIR_CHECK(::pipe(ends.data()) == 0);
    return ends;
  }

  /// False: the ring is full.
  bool Send(const std::vector<std::byte>& message) {
    std::byte* at = connection_->channel.out.Reserve(message.size());
    if (at == nullptr) return false;
    std::memcpy(at, message.data(), message.size());
    connection_->channel.out.Send(message.size());
    return true;
  }
  /// A program connects and makes a queue.
  void Connect() {
    auto connected = opencl::Connect(path_, "tenant");
    ASSERT_TRUE(connected) << connected.error().message;
    connection_.emplace(std::move(*connected));
    ASSERT_FALSE(testing::ReceiveFrom(connection_->channel).empty()) << "the device's facts";
    Send(cl::Encode(cl::CreateContext{.id = kRelayContext, .devices = cl::IdList(&kOnlyDevice, 1)}));
    Send(cl::Encode(cl::CreateQueue{.id = kRelayQueue, .context = kRelayContext, .device = kOnlyDevice}));
  }
  /// A program sends more than the connection takes while the node reads nothing. `with_contents`: to a buffer, whose
  /// contents a migration copies while the program runs.
  void Overfill(bool with_contents) {
    ASSERT_NO_FATAL_FAILURE(Connect());
    if (with_contents)
      Send(cl::Encode(cl::CreateBuffer{
          .id = kRelayBuffer, .context = kRelayContext, .flags = CL_MEM_READ_WRITE, .size = kWrittenBytes}));
    for (int i = 0; i < 8; ++i)
      Send(cl::Encode(cl::WriteBuffer{
          .enqueue = {.queue = kRelayQueue}, .buffer = kRelayBuffer, .content = cl::Blob::Arena(0, kWrittenBytes)}));
    const std::vector<std::byte> flush = cl::Encode(cl::Flush{.queue = kRelayQueue});
    for (bool room = true; room;) {
      while (Send(flush)) {
      }
      connection_->channel.out.WaitForRoom(flush.size(), milliseconds(200));
      room = Send(flush);
    }
  }
  /// A program gives commands with events. The node reads all of them and tells no end. From then on the connection
  /// takes fewer bytes than the questions about the events have.
  void GiveCommandsThatDoNotEnd() {
    ASSERT_NO_FATAL_FAILURE(Connect());
    const int bytes = 128 << 10;
    ASSERT_EQ(::setsockopt(to_old_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    ASSERT_EQ(::setsockopt(old_->fd(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    for (std::uint32_t i = 0; i < kUntold; ++i) {
      const auto command = cl::Encode(cl::Marker{.enqueue = {.queue = kRelayQueue, .event = kFirstUntold + i}});
      ASSERT_TRUE(testing::WaitUntil([&] {
        if (Send(command)) return true;
        Read();
        return false;
      }));
    }
    ASSERT_TRUE(GoesOn());
    ASSERT_EQ(node_.watches, 0U);
  }
  Result<std::string> Move() {
    WEIR_TRY(const platform::Fd control, platform::ConnectSeqPacket(path_ + proto::kControlSuffix));
    const std::string text = proto::RequestText({.node = "new:1", .vgpu = "game"});
    WEIR_TRY_STATUS(platform::SendPacket(control.get(), std::as_bytes(std::span(text))));
    if (!platform::WaitReadable(control.get(), 20'000)) return Fail(Errc::kInternal, "the relay does not answer");
    WEIR_TRY(const platform::Packet packet, platform::ReceivePacket(control.get(), proto::kControlBytesMax));
    return proto::AnswerFrom({reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()});
  }
  void ExpectRefusals() {
    for (int attempt = 1; attempt <= 2; ++attempt) {
      const auto moved = Move();
      ASSERT_FALSE(moved) << *moved;
      EXPECT_EQ(moved.error().code, Errc::kTimeout) << attempt;
      EXPECT_NE(moved.error().message.find("the old node has read nothing"), std::string::npos)
          << moved.error().message;
      EXPECT_TRUE(testing::WaitUntil([this] { return OtherSideHasEnded(*new_); })) << attempt;
    }
  }
  /// The node reads what has come, at most 64 frames.
  void Read() {
    if (!in_) {
      if (!ReceiveHello(*old_)) return;
      in_.emplace(never_, *old_);
    }
    for (int i = 0; i < 64 && !node_.marked; ++i)
      if (const auto came = in_->Step(node_, Duration{0}); !came || !*came) break;
  }
  /// Whether the node gets all that the program has sent, and what it sends now.
  bool GoesOn() {
    bool sent = false;
    node_.marked = false;
    return testing::WaitUntil([&] {
      sent = sent || Send(cl::Encode(cl::Flush{.queue = kMarkerQueue}));
      Read();
      return node_.marked;
    });
  }

  const testing::TempFolder folder_;
  const std::string path_ = folder_ / "s";
  const std::array<int, 2> go_ = MakePipe();
  Child parent_{[this] {
    char byte = 0;
    return ::read(go_[0], &byte, 1) == 1 ? 0 : 1;
  }};
  std::unique_ptr<net::Stream> old_, new_;
  int to_old_ = -1;  // the relay's socket, whose other end is `old_`
  const std::atomic<bool> never_{false};
  ReadingNode node_;  // the old one
  std::optional<InPump> in_;
  std::optional<opencl::Connection> connection_;
  std::thread relay_;
};

TEST_F(MoveFromAStoppedNode, FailsInTimeAndTheProgramStaysThere) {
  ASSERT_NO_FATAL_FAILURE(Overfill(/*with_contents=*/true));
  ASSERT_NO_FATAL_FAILURE(ExpectRefusals());
  EXPECT_TRUE(GoesOn());
}

TEST_F(MoveFromAStoppedNode, FailsInTimeIfThereIsNothingToCopyAhead) {
  ASSERT_NO_FATAL_FAILURE(Overfill(/*with_contents=*/false));
  ASSERT_NO_FATAL_FAILURE(ExpectRefusals());
  EXPECT_TRUE(GoesOn());
}

TEST_F(MoveFromAStoppedNode, FailsInTimeIfTheConnectionTakesOnlySomeOfItsQuestions) {
  ASSERT_NO_FATAL_FAILURE(GiveCommandsThatDoNotEnd());
  ASSERT_NO_FATAL_FAILURE(ExpectRefusals());
  EXPECT_TRUE(GoesOn());
  EXPECT_EQ(node_.watches, kUntold) << "each question is asked once, before what the program sends now";
}

}  // namespace
}  // namespace weir::remote
