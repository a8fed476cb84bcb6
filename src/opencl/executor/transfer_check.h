// SPDX-License-Identifier: Apache-2.0
// Checks that transfers lie within their objects. Drivers are not relied on, because some check rectangles with
// arithmetic that overflows. All arithmetic here is checked, and an overflow means that the transfer does not fit.
// Pure.
#pragma once

#include <cstdint>
#include <limits>

namespace weir::opencl {

/// Whether `size` bytes from `offset` lie within `limit` bytes. A size of 0 is invalid.
constexpr bool RangeFits(std::uint64_t limit, std::uint64_t offset, std::uint64_t size) {
  return size != 0 && offset <= limit && size <= limit - offset;
}

/// A rectangle of a buffer as OpenCL defines it; a pitch of 0 means packed rows or slices.
struct BufferBox {
  const std::uint64_t (&origin)[3];
  const std::uint64_t (&region)[3];
  std::uint64_t row_pitch = 0, slice_pitch = 0;
};

/// a * b + c. False: it overflows.
constexpr bool MultiplyAdd(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t& result) {
  const unsigned __int128 wide = static_cast<unsigned __int128>(a) * b + c;
  result = static_cast<std::uint64_t>(wide);
  return wide <= std::numeric_limits<std::uint64_t>::max();
}

/// Whether OpenCL allows the box and it lies within `limit` bytes.
constexpr bool BoxFits(std::uint64_t limit, const BufferBox& box) {
  const auto& [origin, region, row_pitch, slice_pitch] = box;
  if (region[0] == 0 || region[1] == 0 || region[2] == 0) return false;
  const std::uint64_t row = row_pitch != 0 ? row_pitch : region[0];
  std::uint64_t least_slice = 0;
  if (row < region[0] || !MultiplyAdd(row, region[1], 0, least_slice)) return false;
  const std::uint64_t slice = slice_pitch != 0 ? slice_pitch : least_slice;
  if (slice < least_slice || slice % row != 0) return false;
  // One past the box's last row, slice and byte.
  std::uint64_t rows = 0, slices = 0, end = 0;
  if (!MultiplyAdd(1, origin[1], region[1] - 1, rows) || !MultiplyAdd(1, origin[2], region[2] - 1, slices))
    return false;
  if (!MultiplyAdd(1, origin[0], region[0], end)) return false;
  return MultiplyAdd(rows, row, end, end) && MultiplyAdd(slices, slice, end, end) && end <= limit;
}

/// Whether a box of pixels lies within an image. Both have size 1 in dimensions that the image lacks.
constexpr bool PixelsFit(const std::uint64_t (&extent)[3], const std::uint64_t (&origin)[3],
                         const std::uint64_t (&region)[3]) {
  for (int i = 0; i < 3; ++i)
    if (!RangeFits(extent[i], origin[i], region[i])) return false;
  return true;
}

/// Whether a pattern may fill a range of a buffer.
constexpr bool FillFits(std::uint64_t limit, std::uint64_t pattern, std::uint64_t offset, std::uint64_t size) {
  constexpr std::uint64_t kPatternMax = 128;
  return pattern != 0 && pattern <= kPatternMax && (pattern & (pattern - 1)) == 0 && offset % pattern == 0 &&
         size % pattern == 0 && RangeFits(limit, offset, size);
}

}  // namespace weir::opencl
