// SPDX-License-Identifier: Apache-2.0
// Frames between a relay and a portal (docs/protocol/network.md): a header, followed by its bytes. The frames of the
// handshake contain one message in the encoding of OpenCL's messages.
#pragma once

#include "proto/opencl_codec.h"

namespace weir::proto::net {

inline constexpr std::uint32_t kMagic = 0x31544E57;  // "WNT1"
inline constexpr std::uint16_t kVersion = 2;
/// Peers with a lower version get no kMoveWanted.
inline constexpr std::uint16_t kVersionMoveWanted = 2;

enum class Kind : std::uint16_t {
  kHello = 1,       // relay to portal, the first frame
  kWelcome = 2,     // portal to relay: answers kHello
  kMessages = 3,    // OpenCL messages as in a ring: each padded to a multiple of 8
  kArena = 4,       // bytes for `offset` of the arena, to be stored before the messages after them are executed
  kMoveWanted = 5,  // portal to relay: the program should move to another node, or may stay again
};

struct FrameHeader {
  std::uint32_t bytes = 0;  // after the header
  std::uint16_t kind = 0;
  std::uint16_t reserved = 0;
  std::uint64_t offset = 0;  // kArena; else 0
};
inline constexpr std::size_t kFrameHeaderBytes = 16;
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

inline constexpr std::size_t kHandshakeBytesMax = 1024;
inline constexpr std::size_t kMessagesBytesMax = 256 * 1024;
inline constexpr std::size_t kArenaBytesMax = 16 << 20;
inline constexpr std::size_t kWhyBytesMax = 255;  // in a MoveWanted

/// False if no valid frame has such a header.
inline bool Plausible(const FrameHeader& header) {
  switch (static_cast<Kind>(header.kind)) {
    case Kind::kHello:
    case Kind::kWelcome:
    case Kind::kMoveWanted: return header.bytes >= cl::kHeaderBytes && header.bytes <= kHandshakeBytesMax;
    case Kind::kMessages: return header.bytes > 0 && header.bytes % 8 == 0 && header.bytes <= kMessagesBytesMax;
    case Kind::kArena: return header.bytes > 0 && header.bytes <= kArenaBytesMax;
  }
  return false;
}

struct Hello {
  static constexpr std::uint16_t kOp = 1;
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::string_view vgpu{};     // for plain connections; with certificates, the certificate names the vGPU
  std::string_view program{};  // for display
  static void Fields(auto& m, auto& f) { f(m.magic, m.version, m.vgpu, m.program); }
};

/// Times are the node's CLOCK_MONOTONIC, ns.
struct Welcome {
  static constexpr std::uint16_t kOp = 2;
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t hello_came_ns = 0, sent_ns = 0;
  std::string_view vgpu{};
  std::string_view refusal{};       // why the connection is refused; it is closed then
  std::uint64_t staging_bytes = 0;  // of the arena, as in OpenCL's Welcome; older nodes have none
  static void Fields(auto& m, auto& f) {
    f(m.magic, m.version, m.arena_bytes, m.hello_came_ns, m.sent_ns, m.vgpu, m.refusal, m.staging_bytes);
  }
};

struct MoveWanted {
  static constexpr std::uint16_t kOp = 3;
  std::uint16_t wanted = 0;  // 0: the program may stay
  std::string_view why{};    // text for users
  static void Fields(auto& m, auto& f) { f(m.wanted, m.why); }
};

}  // namespace weir::proto::net
