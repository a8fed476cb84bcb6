// SPDX-License-Identifier: Apache-2.0
// What the two ends of a guest's port send each other (docs/protocol/network.md): a port is a character device of a
// virtual machine, one stream of bytes without connections, and these frames carry many streams over it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::proto::port {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie in memory");

inline constexpr std::uint32_t kMagic = 0x31465057;  // "WPF1"
inline constexpr std::uint16_t kVersion = 1;

enum class Kind : std::uint16_t {
  kHello = 1,   // a Hello follows: who is there, and whom it has heard
  kOpen = 2,    // guest to host: a new stream
  kData = 3,    // `value` bytes of a stream follow, and the sender's epoch, 8 bytes
  kCredit = 4,  // `value` more bytes of a stream may be sent
  kClose = 5,   // a stream has ended, both ways
  kRead = 6,    // guest to host: `value` more bytes of the port, whatever they were, have been read
};

/// Which end.
enum class Side : std::uint16_t { kGuest = 1, kHost = 2 };

struct FrameHeader {
  std::uint32_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t reserved = 0;
  std::uint32_t stream = 0;  // of kHello and kRead 0; a guest counts its streams from 1 on
  std::uint32_t value = 0;
};
inline constexpr std::size_t kFrameHeaderBytes = 16;
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

struct Hello {
  std::uint64_t epoch = 0;  // drawn by who says it, again whenever it begins anew; never 0
  std::uint64_t echo = 0;   // the other end's, as it was heard last; 0: none
  std::uint16_t version = kVersion;
  std::uint16_t side = 0;
  std::uint32_t room = 0;  // a guest's: so many bytes may be on their way to it at a time; 0: any
};
inline constexpr std::size_t kHelloBytes = 24;
inline constexpr std::size_t kHelloBytesMax = 64;  // with what later versions append
static_assert(sizeof(Hello) == kHelloBytes);

inline constexpr std::uint32_t kDataBytesMax = 32 * 1024;
/// What may be sent of a stream before the first credit, and the most that credit may come to.
inline constexpr std::uint32_t kWindowBytes = 512 * 1024;
inline constexpr std::size_t kStreamsMax = 64;
/// A terminal's room. Linux' holds 4095 bytes that nobody has read, and what comes beyond that many drivers lose; some
/// never read again (user-mode Linux 6.1).
inline constexpr std::uint32_t kTerminalRoomBytes = 2048;
inline constexpr std::uint32_t kRoomBytesMin = 256;
/// Of a frame to a guest with so much room.
constexpr std::uint32_t DataBytesMaxFor(std::uint32_t room) { return room == 0 ? kDataBytesMax : room / 4; }
/// Behind each frame of data: one that was cut, or lost bytes on its way, ends otherwise, and nobody is given it.
inline constexpr std::size_t kTrailerBytes = sizeof(Hello::epoch);
/// Zeros before a Hello that begins anew: a frame that the end before this one left unfinished is over behind them.
constexpr std::size_t FillerBytesFor(std::uint32_t room) { return DataBytesMaxFor(room) + kTrailerBytes; }

/// False: no frame has such a header.
inline bool Plausible(const FrameHeader& header) {
  if (header.magic != kMagic || header.reserved != 0) return false;
  switch (static_cast<Kind>(header.kind)) {
    case Kind::kHello: return header.stream == 0 && header.value >= kHelloBytes && header.value <= kHelloBytesMax;
    case Kind::kOpen:
    case Kind::kClose: return header.stream != 0 && header.value == 0;
    case Kind::kData: return header.stream != 0 && header.value > 0 && header.value <= kDataBytesMax;
    case Kind::kCredit: return header.stream != 0 && header.value > 0 && header.value <= kWindowBytes;
    case Kind::kRead: return header.stream == 0 && header.value > 0;
  }
  return false;
}
/// False: no end says this.
inline bool Plausible(const Hello& hello) {
  if (hello.epoch == 0 || hello.version == 0) return false;
  return hello.room == 0 || (hello.room >= kRoomBytesMin && hello.room <= kDataBytesMax);
}

}  // namespace weir::proto::port
