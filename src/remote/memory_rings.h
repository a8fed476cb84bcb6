// SPDX-License-Identifier: Apache-2.0
// One end of the two rings of bytes in memory that a guest shares with its host (proto/port_memory.h). The other end
// may write anything there at any time: positions are checked, bytes are copied out before anybody looks at them. Reads
// no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/port_memory.h"

namespace weir::remote {

class MemoryRings {
 public:
  /// Begins anew, where the process before this one stopped: what it had not read is for nobody. `memory`: all of it,
  /// aligned to 64 bytes; rings of `ring_bytes` fit. `epoch`: a random number, not 0.
  MemoryRings(std::span<std::byte> memory, std::uint64_t ring_bytes, proto::port::Side side, std::uint64_t epoch);

  /// How many bytes were taken or put; 0: there is nothing, or no room.
  std::size_t Read(std::span<std::byte> into);
  std::size_t Write(std::span<const std::byte> bytes);
  /// There is something to read or, where that is asked, room to write.
  [[nodiscard]] bool Ready(bool to_write) const;
  /// True once, behind a Read, when bytes are missing before those that it took, or it took the first that somebody
  /// else has written: the other end began anew.
  bool BeganAnew();
  /// Another process has begun to be this end.
  [[nodiscard]] bool TakenOver() const { return mine_->epoch.load(std::memory_order_relaxed) != epoch_; }

 private:
  [[nodiscard]] std::uint64_t Room() const;

  proto::port::MemoryEnd* mine_;
  proto::port::MemoryEnd* theirs_;
  std::byte* out_;
  std::byte* in_;
  std::uint64_t ring_bytes_;
  // Never read back from the memory.
  std::uint64_t epoch_, produced_, consumed_;
  std::uint64_t their_epoch_;
  bool cut_ = false;
};

}  // namespace weir::remote
