// SPDX-License-Identifier: Apache-2.0
// Frames between the two ends of a guest's port (docs/protocol/network.md). A port is a character device of a virtual
// machine: one stream of bytes without connections. The frames carry many streams over it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::proto::port {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie in memory");

inline constexpr std::uint32_t kMagic = 0x31465057;  // "WPF1"
inline constexpr std::uint16_t kVersion = 1;

enum class Kind : std::uint16_t {
  kHello = 1,   // followed by a Hello: the sender's epoch, and the last epoch that it received
  kOpen = 2,    // guest to host: a new stream
  kData = 3,    // followed by `value` bytes of a stream, and the sender's epoch, 8 bytes
  kCredit = 4,  // `value` more bytes of a stream may be sent
  kClose = 5,   // a stream has ended in both directions
  kRead = 6,    // guest to host: `value` more bytes of the port, of any kind, have been read
};

/// Identifies the end.
enum class Side : std::uint16_t { kGuest = 1, kHost = 2 };

struct FrameHeader {
  std::uint32_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t reserved = 0;
  std::uint32_t stream = 0;  // 0 for kHello and kRead; a guest numbers its streams from 1
  std::uint32_t value = 0;
};
inline constexpr std::size_t kFrameHeaderBytes = 16;
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

struct Hello {
  std::uint64_t epoch = 0;  // random number of the sender, new at each restart; never 0
  std::uint64_t echo = 0;   // the last epoch received from the other end; 0: none
  std::uint16_t version = kVersion;
  std::uint16_t side = 0;
  std::uint32_t room = 0;  // for a guest: limit of bytes in flight to it; 0: no limit
};
inline constexpr std::size_t kHelloBytes = 24;
inline constexpr std::size_t kHelloBytesMax = 64;  // including fields of later versions
static_assert(sizeof(Hello) == kHelloBytes);

inline constexpr std::uint32_t kDataBytesMax = 32 * 1024;
/// Bytes of a stream that may be sent before the first credit, and the maximum of accumulated credit.
inline constexpr std::uint32_t kWindowBytes = 512 * 1024;
inline constexpr std::size_t kStreamsMax = 64;
/// Room of a terminal. Linux buffers 4095 unread bytes; many drivers lose bytes beyond that, and some stop reading for
/// good (user-mode Linux 6.1).
inline constexpr std::uint32_t kTerminalRoomBytes = 2048;
inline constexpr std::uint32_t kRoomBytesMin = 256;
/// Maximum data in a frame to a guest with this room.
constexpr std::uint32_t DataBytesMaxFor(std::uint32_t room) { return room == 0 ? kDataBytesMax : room / 4; }
/// Follows each frame of data: a frame that was cut or lost bytes has another trailer, and is discarded.
inline constexpr std::size_t kTrailerBytes = sizeof(Hello::epoch);
/// Zeros before a Hello after a restart: they complete a frame that the previous process left unfinished.
constexpr std::size_t FillerBytesFor(std::uint32_t room) { return DataBytesMaxFor(room) + kTrailerBytes; }

/// False if no valid frame has such a header.
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
/// False if no valid Hello has such fields.
inline bool Plausible(const Hello& hello) {
  if (hello.epoch == 0 || hello.version == 0) return false;
  return hello.room == 0 || (hello.room >= kRoomBytesMin && hello.room <= kDataBytesMax);
}

}  // namespace weir::proto::port
