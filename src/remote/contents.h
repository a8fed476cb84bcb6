// SPDX-License-Identifier: Apache-2.0
// Contents that are moved: a memory object in pieces that fit a slot, and by digests what of them the new node has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "opencl/log/object_log.h"

namespace weir::remote {

/// A range of a buffer, or a box of an image.
struct Piece {
  std::uint64_t at = 0;                          // of a buffer
  std::uint64_t origin[3] = {}, region[3] = {};  // of an image
  std::uint64_t bytes = 0;                       // tightly packed
};
/// All of a memory object: each byte is in one piece, and none is of more than `most` bytes. Empty: it has a pixel that
/// is larger than that, or none.
std::vector<Piece> PiecesOf(const opencl::ObjectLog::Memory& memory, std::uint64_t most);

/// Digests (SHA-256) of what the new node was sent of one object.
class SentBlocks {
 public:
  static constexpr std::uint64_t kBlockBytes = 64 << 10;
  struct Run {
    std::uint64_t at = 0, bytes = 0;  // of the piece
  };
  /// Which parts of this piece, which is `bytes` now, the new node does not have; `whole`: all or nothing, as a box's
  /// are sent. It is sent them, and has them from now on.
  std::vector<Run> Send(std::size_t piece, std::span<const std::byte> bytes, bool whole);

 private:
  using Digest = std::array<std::byte, 32>;
  std::vector<std::vector<Digest>> pieces_;
};

}  // namespace weir::remote
