// SPDX-License-Identifier: Apache-2.0
#include "remote/memory_rings.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir::remote {
namespace {

namespace port = proto::port;

}  // namespace

MemoryRings::MemoryRings(std::span<std::byte> memory, std::uint64_t ring_bytes, port::Side side, std::uint64_t epoch)
    : ring_bytes_(ring_bytes), epoch_(epoch) {
  auto* const guest = reinterpret_cast<port::MemoryEnd*>(memory.data() + port::kMemoryGuestAt);
  auto* const host = reinterpret_cast<port::MemoryEnd*>(memory.data() + port::kMemoryHostAt);
  std::byte* const up = memory.data() + port::kMemoryRingsAt;
  const bool is_guest = side == port::Side::kGuest;
  mine_ = is_guest ? guest : host;
  theirs_ = is_guest ? host : guest;
  out_ = is_guest ? up : up + ring_bytes;
  in_ = is_guest ? up + ring_bytes : up;
  produced_ = mine_->produced.load(std::memory_order_relaxed);
  their_epoch_ = theirs_->epoch.load(std::memory_order_acquire);
  consumed_ = theirs_->produced.load(std::memory_order_acquire);
  mine_->consumed.store(consumed_, std::memory_order_release);
  mine_->epoch.store(epoch_, std::memory_order_release);
}

std::size_t MemoryRings::Read(std::span<std::byte> into) {
  const std::uint64_t there = theirs_->produced.load(std::memory_order_acquire) - consumed_;
  if (there > ring_bytes_) {
    // The ring cannot hold that many. Reading continues at the position that the other end states; everything before is
    // lost.
    consumed_ += there;
    cut_ = true;
    mine_->consumed.store(consumed_, std::memory_order_release);
    return 0;
  }
  const std::uint64_t at = consumed_ & (ring_bytes_ - 1);
  const std::size_t count = std::min<std::uint64_t>(there, into.size());
  if (count == 0) return 0;
  const std::size_t until_end = std::min<std::uint64_t>(count, ring_bytes_ - at);
  std::memcpy(into.data(), in_ + at, until_end);
  std::memcpy(into.data() + until_end, in_, count - until_end);
  consumed_ += count;
  mine_->consumed.store(consumed_, std::memory_order_release);
  return count;
}

/// 0 if the other end claims to have read more than was written, until it reports a plausible position.
std::uint64_t MemoryRings::Room() const {
  const std::uint64_t used = produced_ - theirs_->consumed.load(std::memory_order_acquire);
  return used > ring_bytes_ ? 0 : ring_bytes_ - used;
}

std::size_t MemoryRings::Write(std::span<const std::byte> bytes) {
  const std::size_t count = std::min<std::uint64_t>(bytes.size(), Room());
  if (count == 0) return 0;
  const std::uint64_t at = produced_ & (ring_bytes_ - 1);
  const std::size_t until_end = std::min<std::uint64_t>(count, ring_bytes_ - at);
  std::memcpy(out_ + at, bytes.data(), until_end);
  std::memcpy(out_, bytes.data() + until_end, count - until_end);
  produced_ += count;
  mine_->produced.store(produced_, std::memory_order_release);
  return count;
}

bool MemoryRings::Ready(bool to_write) const {
  if (theirs_->produced.load(std::memory_order_acquire) != consumed_) return true;
  if (theirs_->epoch.load(std::memory_order_relaxed) != their_epoch_) return true;
  return to_write && Room() > 0;
}

bool MemoryRings::Restarted() {
  // The other end publishes its epoch before its first byte, so that a reader of the byte sees the epoch.
  const std::uint64_t epoch = theirs_->epoch.load(std::memory_order_acquire);
  const bool another = std::exchange(their_epoch_, epoch) != epoch;
  return std::exchange(cut_, false) || another;
}

}  // namespace weir::remote
