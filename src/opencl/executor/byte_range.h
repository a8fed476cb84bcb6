// SPDX-License-Identifier: Apache-2.0
// A byte range of a buffer, and the smallest range that contains what a command writes. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::opencl {

struct ByteRange {
  std::uint64_t begin = 0, end = 0;

  /// `size` bytes from `begin`, clipped to `limit`.
  static constexpr ByteRange Within(std::uint64_t limit, std::uint64_t begin, std::uint64_t size) {
    const std::uint64_t first = std::min(begin, limit);
    return {first, first + std::min(size, limit - first)};
  }
  [[nodiscard]] constexpr bool empty() const { return begin >= end; }
  [[nodiscard]] constexpr std::uint64_t size() const { return empty() ? 0 : end - begin; }
  /// Extends to the smallest range that contains both.
  constexpr void Cover(const ByteRange& other) {
    if (other.empty()) return;
    *this = empty() ? other : ByteRange{std::min(begin, other.begin), std::max(end, other.end)};
  }
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// The smallest range that contains a box in a buffer of `limit` bytes. Boxes are given as OpenCL's rectangles; a pitch
/// of 0 means packed rows or slices. The whole buffer if the range cannot be computed.
constexpr ByteRange HullOfBox(std::uint64_t limit, const std::uint64_t (&origin)[3], const std::uint64_t (&region)[3],
                              std::uint64_t row_pitch, std::uint64_t slice_pitch) {
  using Wide = unsigned __int128;
  constexpr std::uint64_t kSane = 1ULL << 40;
  for (int i = 0; i < 3; ++i)
    if (region[i] == 0 || region[i] > kSane || origin[i] > kSane) return {0, region[i] == 0 ? 0 : limit};
  if (row_pitch > kSane || slice_pitch > kSane) return {0, limit};
  const Wide row = row_pitch != 0 ? row_pitch : region[0];
  const Wide slice = slice_pitch != 0 ? slice_pitch : row * region[1];
  if (slice > kSane) return {0, limit};
  const Wide begin = origin[2] * slice + origin[1] * row + origin[0];
  const Wide size = (region[2] - 1) * slice + (region[1] - 1) * row + region[0];
  if (begin >= limit || size > limit) return {0, limit};
  return ByteRange::Within(limit, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(size));
}

}  // namespace weir::opencl
