// SPDX-License-Identifier: Apache-2.0
#include "remote/contents.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"

namespace weir::remote {
namespace {

/// Divides an image into boxes of as many slices, rows or pixels as fit.
std::vector<Piece> BoxesOf(const opencl::ObjectLog::Memory& image, std::uint64_t most) {
  std::vector<Piece> boxes;
  const auto& [width, rows, slices] = image.extent;
  const std::uint64_t row_bytes = width * image.pixel_bytes, slice_bytes = row_bytes * rows;
  const std::uint64_t step[3] = {row_bytes <= most ? width : most / image.pixel_bytes,
                                 slice_bytes <= most ? rows : std::max<std::uint64_t>(most / row_bytes, 1),
                                 std::clamp<std::uint64_t>(most / slice_bytes, 1, slices)};
  for (std::uint64_t z = 0; z < slices; z += step[2])
    for (std::uint64_t y = 0; y < rows; y += step[1])
      for (std::uint64_t x = 0; x < width; x += step[0]) {
        Piece box{.origin = {x, y, z},
                  .region = {std::min(step[0], width - x), std::min(step[1], rows - y), std::min(step[2], slices - z)}};
        box.bytes = box.region[0] * box.region[1] * box.region[2] * image.pixel_bytes;
        boxes.push_back(box);
      }
  return boxes;
}

}  // namespace

std::vector<Piece> PiecesOf(const opencl::ObjectLog::Memory& memory, std::uint64_t most) {
  if (memory.image) return memory.size == 0 || memory.pixel_bytes > most ? std::vector<Piece>() : BoxesOf(memory, most);
  std::vector<Piece> ranges;
  for (std::uint64_t at = 0; at < memory.size; at += most)
    ranges.push_back({.at = at, .bytes = std::min(most, memory.size - at)});
  return ranges;
}

std::vector<SentBlocks::Run> SentBlocks::Send(std::size_t piece, std::span<const std::byte> bytes, bool whole) {
  if (piece >= pieces_.size()) pieces_.resize(piece + 1);
  std::vector<Digest>& known = pieces_[piece];
  const std::uint64_t block_bytes = whole ? std::max<std::uint64_t>(bytes.size(), 1) : kBlockBytes;
  std::vector<Run> runs;
  for (std::uint64_t at = 0, block = 0; at < bytes.size(); at += block_bytes, ++block) {
    const auto content = bytes.subspan(at, std::min<std::uint64_t>(block_bytes, bytes.size() - at));
    Digest digest;
    unsigned size = 0;
    WEIR_CHECK(EVP_Digest(content.data(), content.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                          EVP_sha256(), nullptr) == 1 &&
               size == digest.size());
    if (block < known.size() && known[block] == digest) continue;
    if (block >= known.size()) known.resize(block + 1);
    known[block] = digest;
    if (!runs.empty() && runs.back().at + runs.back().bytes == at)
      runs.back().bytes += content.size();
    else
      runs.push_back({.at = at, .bytes = content.size()});
  }
  return runs;
}

}  // namespace weir::remote
