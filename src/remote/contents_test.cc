// SPDX-License-Identifier: Apache-2.0
#include "remote/contents.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

namespace weir::remote {
namespace {

using Memory = opencl::ObjectLog::Memory;

RC_GTEST_PROP(Contents, EachByteOfABufferIsInOnePiece, (std::uint16_t size, std::uint8_t most)) {
  std::uint64_t at = 0;
  for (const Piece& piece : PiecesOf(Memory{.size = size}, most + 1ULL)) {
    RC_ASSERT(piece.at == at);
    RC_ASSERT(piece.bytes > 0U && piece.bytes <= most + 1U);
    at += piece.bytes;
  }
  RC_ASSERT(at == size);
}

RC_GTEST_PROP(Contents, EachPixelOfAnImageIsInOneBox, (const std::array<std::uint8_t, 3>& drawn, std::uint8_t room)) {
  Memory image{.image = true, .pixel_bytes = 4};
  for (int i = 0; i < 3; ++i) image.extent[i] = 1U + drawn[static_cast<std::size_t>(i)] % 12;
  const std::uint64_t pixels = image.extent[0] * image.extent[1] * image.extent[2], most = 4U + room;
  image.size = 4 * pixels;
  std::map<std::array<std::uint64_t, 3>, int> seen;
  for (const Piece& box : PiecesOf(image, most)) {
    RC_ASSERT(box.bytes == 4 * box.region[0] * box.region[1] * box.region[2]);
    RC_ASSERT(box.bytes > 0U && box.bytes <= most);
    for (std::uint64_t z = 0; z < box.region[2]; ++z)
      for (std::uint64_t y = 0; y < box.region[1]; ++y)
        for (std::uint64_t x = 0; x < box.region[0]; ++x)
          ++seen[{box.origin[0] + x, box.origin[1] + y, box.origin[2] + z}];
  }
  RC_ASSERT(seen.size() == pixels);
  for (const auto& [at, times] : seen)
    for (std::size_t i = 0; i < 3; ++i) RC_ASSERT(times == 1 && at[i] < image.extent[i]);
}

TEST(Contents, UnknownPixelFormatsHaveNoPieces) {
  EXPECT_TRUE(PiecesOf(Memory{.image = true, .extent = {4, 4, 4}}, 1 << 20).empty());
  EXPECT_TRUE(PiecesOf(Memory{.image = true, .size = 128, .pixel_bytes = 16, .extent = {8, 1, 1}}, 8).empty());
}

// A node that receives the runs that `Send` returns always holds the latest content.
RC_GTEST_PROP(Contents, SentPiecesUpdateTheNodesContents,
              (const std::vector<std::tuple<bool, std::uint32_t, std::uint8_t>>& rounds, bool whole)) {
  constexpr std::size_t kBytes = 3 * SentBlocks::kBlockBytes + 77;
  SentBlocks blocks;
  std::vector<std::byte> now(kBytes), there(kBytes, std::byte{1});
  for (const auto& [changes, at, value] : std::span(rounds).first(std::min<std::size_t>(rounds.size(), 12))) {
    const std::vector<std::byte> before = there;
    if (changes) now[at % kBytes] = static_cast<std::byte>(value);
    std::uint64_t sent = 0;
    for (const auto& run : blocks.Send(1, now, whole)) {
      std::copy_n(now.begin() + static_cast<std::ptrdiff_t>(run.at), run.bytes,
                  there.begin() + static_cast<std::ptrdiff_t>(run.at));
      sent += run.bytes;
    }
    RC_ASSERT(there == now);
    if (before == now) RC_ASSERT(sent == 0U);
    if (&std::get<0>(rounds.front()) != &changes) RC_ASSERT(sent <= (whole ? kBytes : SentBlocks::kBlockBytes));
  }
}

}  // namespace
}  // namespace weir::remote
