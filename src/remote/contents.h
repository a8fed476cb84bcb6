// SPDX-License-Identifier: Apache-2.0
// The contents that a migration copies: memory objects are divided into pieces that fit a slot, and digests tell which
// blocks the new node already has.
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
  std::uint64_t at = 0;                          // buffers only
  std::uint64_t origin[3] = {}, region[3] = {};  // images only
  std::uint64_t bytes = 0;                       // of tightly packed data
};
/// Divides a memory object into pieces of at most `most` bytes that cover each byte exactly once. Empty: the object has
/// no content, or a pixel is larger than `most`.
std::vector<Piece> PiecesOf(const opencl::ObjectLog::Memory& memory, std::uint64_t most);

/// SHA-256 digests of the content of one object that was sent to the new node.
class SentBlocks {
 public:
  static constexpr std::uint64_t kBlockBytes = 64 << 10;
  struct Run {
    std::uint64_t at = 0, bytes = 0;  // relative to the piece
  };
  /// Returns the parts of the piece that the new node does not have, and records them as sent. `bytes` is the piece's
  /// current content. With `whole` the result is all or nothing, because a box of an image is sent as a unit.
  std::vector<Run> Send(std::size_t piece, std::span<const std::byte> bytes, bool whole);

 private:
  using Digest = std::array<std::byte, 32>;
  std::vector<std::vector<Digest>> pieces_;
};

}  // namespace weir::remote
