// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a peer may send: to a portal that waits for a Hello, to a relay that waits for a Welcome, and to either
// afterwards; also what a node may send to a relay that follows its messages or moves to it, and what a guest may send
// through its port and write into the shared memory. The first byte selects the case.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "platform/shared_memory.h"
#include "proto/relay_control.h"
#include "remote/followed_sink.h"
#include "remote/fresh_node.h"
#include "remote/handshake.h"
#include "remote/memory_rings.h"
#include "remote/port_mux.h"
#include "remote/pump.h"
#include "tests/harness/memory_stream.h"

namespace {

using namespace weir;

/// A ring without a reader, larger than any input, and a small arena.
struct Lines {
  Lines() {
    rings = std::move(*platform::MakeSharedRegion("fuzz-rings", opencl::kRingsBytes));
    arena = std::move(*platform::MakeSharedRegion("fuzz-arena", 64 * 1024));
  }
  platform::SharedRegion rings, arena;
};

/// The sink of a relay, which accepts drain requests.
class RelaysSink final : public remote::LineSink {
 public:
  using LineSink::LineSink;
  Status MoveWanted(const std::string& why) override {
    if (why.size() > proto::net::kWhyBytesMax) __builtin_trap();
    for (const char c : why)
      if (c < ' ' || c > '~') __builtin_trap();
    return Ok();
  }
};

/// A node whose messages a relay follows. A move has opened the spare slots and waits for one answer.
void Follow(net::Stream& node) {
  Lines lines;
  remote::Line line;
  line.channel = std::move(*opencl::MapChannel(lines.rings.fd.get(), opencl::Side::kExecutor));
  line.arena = std::move(lines.arena.mapping);
  remote::Followed followed([](std::uint64_t, std::uint64_t) { return proto::cl::ByteView(); });
  remote::FollowedSink sink(line, followed, /*ahead_ns=*/0);
  sink.OpenSpare();
  const std::uint32_t request = sink.NewRequest();
  remote::InPump in(line.stop, node);
  if (in.Run(sink)) __builtin_trap();
  sink.Ended();
  static_cast<void>(sink.AnswerTo(request, Duration::zero()));
  for (unsigned slot = 0; slot < remote::kSpareSlots; ++slot)
    if (sink.ArrivedIn(slot).size() > remote::kSpareSlotBytes) __builtin_trap();
}

/// A node that a program moves to. The same bytes stand for the facts of the program's platform.
void MoveTo(net::Stream& node, std::span<const std::byte> said) {
  const std::atomic<bool> stop{false};
  remote::InPump in(stop, node);
  remote::FreshNode fresh(node, in, stop);
  static_cast<void>(fresh.SameDeviceAs(said).has_value());
}

/// Takes no data of the guest's streams, so that no more may arrive than their windows allow.
class Host final : remote::PortEvents {
 public:
  /// Receives the data in two pieces, cut where the first byte says.
  void Hear(std::span<const std::byte> said) {
    mux_.Start(Instant{});
    const std::size_t cut =
        said.empty() ? 0 : std::min<std::size_t>(std::to_integer<std::size_t>(said[0]), said.size());
    mux_.Receive(said.first(cut), Instant{});
    mux_.Receive(said.subspan(cut), Instant{});
    // No more than one answer with its zeros, and for each frame a shorter one.
    if (mux_.pending() > said.size() + 2 * proto::port::FillerBytesFor(0)) __builtin_trap();
    mux_.Tick(Instant{} + remote::kPortSilenceMax);
  }

 private:
  void OnJoined() override {}
  void OnLost(const std::string&) override { came_.clear(); }
  void OnOpened(std::uint32_t stream) override {
    if (!came_.emplace(stream, 0).second || came_.size() > proto::port::kStreamsMax) __builtin_trap();
  }
  void OnData(std::uint32_t stream, std::span<const std::byte> bytes) override {
    if ((came_.at(stream) += bytes.size()) > proto::port::kWindowBytes) __builtin_trap();
  }
  void OnClosed(std::uint32_t stream) override {
    if (came_.erase(stream) == 0) __builtin_trap();
  }
  remote::PortMux mux_{proto::port::Side::kHost, [] { return std::uint64_t{0x7777777777777777}; }, *this};
  std::map<std::uint32_t, std::size_t> came_;
};

/// Input: a header, then the guest's writes between two polls of the host, each a byte for the place and 8 bytes for
/// the value.
void ShareMemoryWith(std::span<const std::byte> guest) {
  namespace port = proto::port;
  port::MemoryHeader header;
  if (guest.size() < sizeof header) return;
  std::memcpy(&header, guest.data(), sizeof header);
  if (port::CheckMemoryHeader(header, port::kMemoryBytesMax, "it") &&
      ((header.ring_bytes & (header.ring_bytes - 1)) != 0 ||
       port::kMemoryRingsAt + 2 * header.ring_bytes > header.bytes || header.bytes > port::kMemoryBytesMax))
    __builtin_trap();
  constexpr std::uint64_t kRing = port::kMemoryRingMin;
  alignas(64) static std::byte memory[port::kMemoryRingsAt + 2 * kRing];
  std::memset(memory, 0, sizeof memory);
  remote::MemoryRings host(memory, kRing, port::Side::kHost, 1);
  auto& end = *reinterpret_cast<port::MemoryEnd*>(memory + port::kMemoryGuestAt);
  for (guest = guest.subspan(sizeof header); guest.size() >= 9; guest = guest.subspan(9)) {
    std::uint64_t value = 0;
    std::memcpy(&value, guest.data() + 1, sizeof value);
    switch (std::to_integer<unsigned>(guest[0]) % 4) {
      case 0: end.produced = value; break;
      case 1: end.consumed = value; break;
      case 2: end.epoch = value; break;
      default: end.produced += value % (2 * kRing);
    }
    std::array<std::byte, 1000> bytes{};
    const std::uint64_t before = end.produced;
    if (host.Read(bytes) > bytes.size() || end.produced != before) __builtin_trap();
    static_cast<void>(host.Restarted());
    if (host.Write(bytes) > bytes.size()) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > opencl::kRingBytes / 4) return 0;
  weir::testing::MemoryStream stream(std::as_bytes(std::span(data + 1, size - 1)));
  if (data[0] == 0xff) {  // a relay's control socket
    const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
    if (const auto request = proto::RequestFrom(text); request && !proto::RequestFrom(proto::RequestText(*request)))
      __builtin_trap();
    static_cast<void>(proto::AnswerFrom(text).has_value());
  } else if (data[0] == 0xfe) {
    Host().Hear(std::as_bytes(std::span(data + 1, size - 1)));
  } else if (data[0] == 0xfd) {
    ShareMemoryWith(std::as_bytes(std::span(data + 1, size - 1)));
  } else if (data[0] == 0xfc) {
    Follow(stream);
  } else if (data[0] == 0xfb) {
    MoveTo(stream, std::as_bytes(std::span(data + 1, size - 1)));
  } else if (data[0] % 3 == 0) {
    static_cast<void>(remote::ReceiveHello(stream).has_value());
  } else if (data[0] % 3 == 1) {
    static_cast<void>(remote::Enter(stream, {}).has_value());
  } else {
    Lines lines;
    remote::Line line;
    line.channel = std::move(*opencl::MapChannel(lines.rings.fd.get(), opencl::Side::kClient));
    line.arena = std::move(lines.arena.mapping);
    RelaysSink sink(line);
    remote::InPump in(line.stop, stream);
    if (in.Run(sink)) __builtin_trap();  // only the end of the input or a malformed frame ends it
  }
  return 0;
}
