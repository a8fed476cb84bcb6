// SPDX-License-Identifier: Apache-2.0
// Layout of the memory that a virtual machine shares with its host instead of a port (docs/protocol/network.md, "In
// shared memory"): a header, the state of each end, and a ring of bytes in each direction.
//
//   0     MemoryHeader           written once by the host
//   64    MemoryEnd of the guest
//   128   MemoryEnd of the host
//   4096  ring up, guest to host
//   4096 + ring_bytes   ring down
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "proto/port_frames.h"

namespace weir::proto::port {

inline constexpr std::uint32_t kMemoryMagic = 0x314D5057;  // "WPM1"
inline constexpr std::uint16_t kMemoryVersion = 1;

struct MemoryHeader {
  std::uint32_t magic = kMemoryMagic;  // written last
  std::uint16_t version = kMemoryVersion;
  std::uint16_t reserved = 0;
  std::uint64_t bytes = 0;       // total size, including this header
  std::uint64_t ring_bytes = 0;  // of each ring, a power of two
};
inline constexpr std::size_t kMemoryHeaderBytes = 24;
static_assert(sizeof(MemoryHeader) == kMemoryHeaderBytes && offsetof(MemoryHeader, bytes) == 8);

/// Written by one end, each field after the data that it describes. Byte number n of a ring is at n % ring_bytes.
struct MemoryEnd {
  std::atomic<std::uint64_t> epoch;     // random, new at each restart of this end; 0: not started yet
  std::atomic<std::uint64_t> produced;  // total bytes written to its own ring
  std::atomic<std::uint64_t> consumed;  // total bytes taken from the other end's ring
};
static_assert(sizeof(MemoryEnd) == 24 && std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t kMemoryGuestAt = 64;
inline constexpr std::size_t kMemoryHostAt = 128;
inline constexpr std::size_t kMemoryRingsAt = 4096;
inline constexpr std::uint64_t kMemoryBytesMin = 64 * 1024;
inline constexpr std::uint64_t kMemoryBytesMax = 1ULL << 30;
inline constexpr std::uint64_t kMemoryRingMin = 4096;
static_assert(kMemoryHostAt + sizeof(MemoryEnd) <= kMemoryRingsAt);

/// The header that a host writes into `bytes` of memory: with the largest rings that fit.
constexpr MemoryHeader MemoryHeaderFor(std::uint64_t bytes) {
  MemoryHeader header{.bytes = bytes, .ring_bytes = kMemoryRingMin};
  while (kMemoryRingsAt + 4 * header.ring_bytes <= bytes) header.ring_bytes *= 2;
  return header;
}

/// Checks a copy of the memory's beginning. `bytes`: upper limit of the memory's size. Errors, which mention `name`:
/// kUnavailable if no host has written a header yet; kInvalidArgument if it is not a header, or the memory is smaller
/// than stated; kVersionMismatch.
Status CheckMemoryHeader(const MemoryHeader& header, std::uint64_t bytes, const std::string& name);

}  // namespace weir::proto::port
