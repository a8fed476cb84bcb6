// SPDX-License-Identifier: Apache-2.0
// One end of the two byte rings in memory that a guest shares with its host (proto/port_memory.h). The other end may
// write any value at any time. Positions are therefore checked, and bytes are copied before they are examined. Pure:
// reads no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/port_memory.h"

namespace weir::remote {

class MemoryRings {
 public:
  /// Starts a new session at the position where the previous process stopped; bytes which that process did not read are
  /// dropped. `memory` is the whole area, aligned to 64 bytes, with room for rings of `ring_bytes`. `epoch` is a random
  /// number other than 0.
  MemoryRings(std::span<std::byte> memory, std::uint64_t ring_bytes, proto::port::Side side, std::uint64_t epoch);

  /// Return the number of bytes transferred. 0: there is no data, or no room.
  std::size_t Read(std::span<std::byte> into);
  std::size_t Write(std::span<const std::byte> bytes);
  /// Whether there is data to read or, with `to_write`, room to write.
  [[nodiscard]] bool Ready(bool to_write) const;
  /// Returns true once after a Read if bytes were lost before those that it returned, or if they are the first of a new
  /// session of the other end.
  bool Restarted();
  /// Whether another process has taken over this end.
  [[nodiscard]] bool TakenOver() const { return mine_->epoch.load(std::memory_order_relaxed) != epoch_; }

 private:
  [[nodiscard]] std::uint64_t Room() const;

  proto::port::MemoryEnd* mine_;
  proto::port::MemoryEnd* theirs_;
  std::byte* out_;
  std::byte* in_;
  std::uint64_t ring_bytes_;
  // Private copies; the shared memory is never read back.
  std::uint64_t epoch_, produced_, consumed_;
  std::uint64_t their_epoch_;
  bool cut_ = false;
};

}  // namespace weir::remote
