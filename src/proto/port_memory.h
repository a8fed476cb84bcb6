// SPDX-License-Identifier: Apache-2.0
// What lies in the memory that a virtual machine shares with its host in place of a port (docs/protocol/network.md, "In
// shared memory"): a header, what each end says of itself, and a ring of bytes each way.
//
//   0     MemoryHeader           written once, by the host
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
  std::uint64_t bytes = 0;       // of all, this header included
  std::uint64_t ring_bytes = 0;  // of each ring, a power of two
};
inline constexpr std::size_t kMemoryHeaderBytes = 24;
static_assert(sizeof(MemoryHeader) == kMemoryHeaderBytes && offsetof(MemoryHeader, bytes) == 8);

/// Written by one end, each field after what it tells of. Byte number n of a ring lies at n % ring_bytes of it.
struct MemoryEnd {
  std::atomic<std::uint64_t> epoch;     // random, drawn whenever this end begins anew; 0: nobody ever had it
  std::atomic<std::uint64_t> produced;  // bytes that it has put into its own ring, ever
  std::atomic<std::uint64_t> consumed;  // bytes that it has taken from the other's, ever
};
static_assert(sizeof(MemoryEnd) == 24 && std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t kMemoryGuestAt = 64;
inline constexpr std::size_t kMemoryHostAt = 128;
inline constexpr std::size_t kMemoryRingsAt = 4096;
inline constexpr std::uint64_t kMemoryBytesMin = 64 * 1024;
inline constexpr std::uint64_t kMemoryBytesMax = 1ULL << 30;
inline constexpr std::uint64_t kMemoryRingMin = 4096;
static_assert(kMemoryHostAt + sizeof(MemoryEnd) <= kMemoryRingsAt);

/// What a host writes into so much memory: the largest rings that fit.
constexpr MemoryHeader MemoryHeaderFor(std::uint64_t bytes) {
  MemoryHeader header{.bytes = bytes, .ring_bytes = kMemoryRingMin};
  while (kMemoryRingsAt + 4 * header.ring_bytes <= bytes) header.ring_bytes *= 2;
  return header;
}

/// Whether a copy of what lies at the beginning is a header that this version can go by. `bytes`: how much memory there
/// is at most. Errors, about `name`: kUnavailable, no host has written one yet; kInvalidArgument, it is something else,
/// or smaller than it says; kVersionMismatch.
Status CheckMemoryHeader(const MemoryHeader& header, std::uint64_t bytes, const std::string& name);

}  // namespace weir::proto::port
