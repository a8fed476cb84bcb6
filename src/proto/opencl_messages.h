// SPDX-License-Identifier: Apache-2.0
// The messages between an OpenCL client and its executor (docs/protocol/opencl.md). Each lists its fields once, in wire
// order; encoding, decoding, the golden bytes and the fuzzer are derived from this list. Append fields, never insert or
// remove. Values named cl_* are OpenCL's own numbers.
//
// This file has the bounds that both sides keep, and the handshake: one packet each way on the socket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/opencl_answer_messages.h"
#include "proto/opencl_codec.h"
#include "proto/opencl_command_messages.h"
#include "proto/opencl_object_messages.h"
#include "proto/opencl_request_messages.h"

namespace weir::proto::cl {

/// Writes of up to this many bytes are sent within their message.
inline constexpr std::size_t kInlineBytesMax = 16 * 1024;
/// Flag of a ticket: no thread waits for it, so its Freed need not wake one.
inline constexpr std::uint64_t kNobodyWaits = 1ULL << 63;
/// Alignment of ranges in the arena: enough for host memory that a buffer of any device uses.
inline constexpr std::uint64_t kArenaAlignment = 4096;

inline constexpr std::uint32_t kHelloMagic = 0x31434F57;  // "WOC1"
inline constexpr std::uint16_t kVersion = 1;

struct Hello {
  static constexpr std::uint16_t kOp = 1;
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::string_view program{};  // for display
  std::uint8_t remote = 0;     // 1: a remote client, whose arena is a different one; results of reads are announced
                               // (Arrived) and sent
  static void Fields(auto& m, auto& f) { f(m.magic, m.version, m.program, m.remote); }
};

/// Sent with two descriptors: the rings and the arena. A refusal has none. A remote client gets a third one, the
/// buffers' memory, if the device works in host memory.
struct Welcome {
  static constexpr std::uint16_t kOp = 2;
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint64_t ring_bytes = 0;  // of each ring
  std::uint64_t arena_bytes = 0;
  std::string_view refusal{};
  std::uint64_t buffers_bytes = 0;
  std::uint64_t staging_bytes = 0;  // the end of the arena in which buffers don't lie
  static void Fields(auto& m, auto& f) {
    f(m.magic, m.version, m.ring_bytes, m.arena_bytes, m.refusal, m.buffers_bytes, m.staging_bytes);
  }
};
inline constexpr std::size_t kHandshakeBytesMax = 1024;

}  // namespace weir::proto::cl
