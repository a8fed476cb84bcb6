// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a program may write into the ring to its relay: messages of any kind and size, and any ring positions.
// The relay follows the messages, because a program may have to migrate, and forwards them with the parts of the arena
// that they name. Each piece of the input begins with a byte that gives its kind, and a two-byte length:
//
//   0: bytes, unchanged        1: a message from the executor, shown to the relay's log
//   2: a message of any size   3: a word of the ring's positions          0x80: the relay polls the ring afterwards
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "platform/shared_memory.h"
#include "proto/network_frames.h"
#include "remote/pump.h"
#include "tests/harness/memory_stream.h"

namespace {

using namespace weir;
using Piece = std::span<const std::byte>;

constexpr std::size_t kArenaBytes = 64 * 1024;

/// A node that reads every byte and parses frames.
class Node final : public net::Stream {
 public:
  Result<std::size_t> TrySend(std::span<const iovec> parts) override {
    std::size_t taken = 0;
    for (const iovec& part : parts) {
      const Piece bytes(static_cast<const std::byte*>(part.iov_base), part.iov_len);
      for (const std::byte byte : bytes) sum_ = sum_ + std::to_integer<unsigned>(byte);
      Frames(bytes);
      taken += bytes.size();
    }
    return taken;
  }
  Result<std::size_t> TryReceive(std::span<std::byte>) override {
    return Fail(Errc::kUnavailable, "it gives no reason");
  }
  bool AwaitSend(Duration) override { return true; }
  bool AwaitReceive(Duration) override { return true; }
  void Shutdown() override {}
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] const std::string& peer_name() const override { return name_; }

 private:
  /// The relay sends a frame's header as one part and its content as the next.
  void Frames(Piece bytes) {
    if (left_ == 0) {
      proto::net::FrameHeader header;
      if (bytes.size() != sizeof header) __builtin_trap();
      std::memcpy(&header, bytes.data(), sizeof header);
      const bool messages = header.kind == static_cast<std::uint16_t>(proto::net::Kind::kMessages);
      if (header.bytes == 0 || header.bytes > (messages ? proto::net::kMessagesBytesMax : proto::net::kArenaBytesMax))
        __builtin_trap();
      if (!messages && (header.offset > kArenaBytes || header.bytes > kArenaBytes - header.offset)) __builtin_trap();
      left_ = header.bytes;
    } else {
      if (bytes.size() > left_) __builtin_trap();
      left_ -= bytes.size();
    }
  }
  std::size_t left_ = 0;
  volatile unsigned sum_ = 0;
  const std::string name_ = "node";
};

/// Puts these bytes into the ring, padded with zeros to `size`, or fewer if the ring is full.
void Write(opencl::RingProducer& ring, Piece bytes, std::size_t size, bool with_size) {
  std::byte* const at = ring.Reserve(size);
  if (at == nullptr) return;
  std::memset(at, 0, size);
  std::memcpy(at, bytes.data(), std::min(bytes.size(), size));
  const auto whole = static_cast<std::uint32_t>(size);
  if (with_size) std::memcpy(at, &whole, std::min(sizeof whole, size));
  ring.Send(size);
}

void SetPosition(opencl::RingControl& control, Piece bytes) {
  std::uint64_t value = 0;
  if (bytes.empty()) return;
  std::memcpy(&value, bytes.data() + 1, std::min(bytes.size() - 1, sizeof value));
  switch (std::to_integer<unsigned>(bytes[0]) % 4) {
    case 0: control.produced = value; break;
    case 1: control.produced += value % (2 * opencl::kRingBytes); break;
    case 2: control.consumed = value; break;
    default: control.consumer_sleeps = static_cast<std::uint32_t>(value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const platform::SharedRegion rings = *platform::MakeSharedRegion("fuzz-rings", opencl::kRingsBytes);
  static const platform::SharedRegion arena = *platform::MakeSharedRegion("fuzz-arena", kArenaBytes);
  std::memset(rings.mapping.As<std::byte>(), 0, opencl::kControlBytes);
  opencl::Channel client = *opencl::MapChannel(rings.fd.get(), opencl::Side::kClient);
  remote::Line line;
  line.channel = *opencl::MapChannel(rings.fd.get(), opencl::Side::kExecutor);
  line.arena = *platform::MapForeignRegion(arena.fd.get(), kArenaBytes);
  remote::Followed followed([&line](std::uint64_t offset, std::uint64_t bytes) -> proto::cl::ByteView {
    if (offset > line.arena.bytes() || bytes > line.arena.bytes() - offset) return {};
    return {line.arena.As<std::byte>() + offset, bytes};
  });
  Node node;
  remote::OutPump pump(line, node, remote::OutPump::Side::kClients, &followed);
  auto& sleeps = client.control.As<opencl::RingControl>()[0].consumer_sleeps;
  const auto look = [&] {
    sleeps = opencl::kInterrupted;  // do not wait for an empty ring
    return static_cast<bool>(pump.Run([] { return false; }));
  };
  for (Piece rest = std::as_bytes(std::span(data, size)); rest.size() >= 3;) {
    const auto what = std::to_integer<unsigned>(rest[0]);
    const std::size_t length = std::to_integer<std::size_t>(rest[1]) | std::to_integer<std::size_t>(rest[2]) << 8;
    const Piece piece = rest.subspan(3, std::min(length, rest.size() - 3));
    rest = rest.subspan(3 + piece.size());
    switch (what & 3) {
      case 0: Write(client.out, piece, piece.size(), /*with_size=*/false); break;
      case 1: static_cast<void>(followed.log.FromExecutor(piece)); break;
      case 2:
        if (!piece.empty())
          Write(client.out, piece.subspan(1), std::max(std::to_integer<std::size_t>(piece[0]) * 2048, piece.size() - 1),
                /*with_size=*/true);
        break;
      default: SetPosition(client.control.As<opencl::RingControl>()[0], piece);
    }
    if ((what & 0x80) != 0 && !look()) return 0;
  }
  static_cast<void>(look());
  return 0;
}
