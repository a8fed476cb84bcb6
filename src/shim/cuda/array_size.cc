// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/array_size.h"

#include <algorithm>
#include <limits>

namespace weir::shim::cuda {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t Product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

/// Bits of a texel, by CUarray_format. Formats that are not known here count as 32 bits for each channel.
std::uint64_t BitsOf(int format, unsigned channels) {
  channels = std::max(channels, 1u);
  switch (format) {
    case 0x01:                         // UNSIGNED_INT8
    case 0x08: return 8u * channels;   // SIGNED_INT8
    case 0x02:                         // UNSIGNED_INT16
    case 0x09:                         // SIGNED_INT16
    case 0x10: return 16u * channels;  // HALF
    case 0x91:                         // BC1: blocks of 4 x 4 texels in 8 bytes
    case 0x92:
    case 0x97:  // BC4
    case 0x98: return 4;
    case 0xb0: return 12;  // NV12: a plane of 8 bits, and one of 16 bits for 4 texels
    default: break;
  }
  if (format >= 0x93 && format <= 0x9e) return 8;               // other BC formats: the same blocks in 16 bytes
  if (format >= 0xc0 && format <= 0xc2) return 8u * channels;   // UNORM_INT8
  if (format >= 0xc3 && format <= 0xc5) return 16u * channels;  // UNORM_INT16
  if (format >= 0xc6 && format <= 0xc8) return 8u * channels;   // SNORM_INT8
  if (format >= 0xc9 && format <= 0xcb) return 16u * channels;  // SNORM_INT16
  return 32u * std::uint64_t{channels};
}

}  // namespace

std::uint64_t BytesOf(const Array3dDescriptor& array, unsigned levels) {
  constexpr unsigned kLayered = 0x01, kCubemap = 0x04, kSparse = 0x40, kDeferred = 0x80;
  if ((array.flags & (kSparse | kDeferred)) != 0) return 0;
  const bool layers = (array.flags & (kLayered | kCubemap)) != 0;
  std::uint64_t sum = 0;
  for (unsigned level = 0; level < std::clamp(levels, 1u, 64u); ++level) {
    const auto extent = [level](std::size_t whole, bool halves) {
      return std::max<std::uint64_t>(halves ? std::uint64_t{whole} >> std::min(level, 63u) : whole, 1);
    };
    const std::uint64_t texels =
        Product(Product(extent(array.width, true), extent(array.height, true)), extent(array.depth, !layers));
    const std::uint64_t bits = Product(texels, BitsOf(array.format, array.channels));
    const std::uint64_t bytes = bits == kMost ? kMost : bits / 8 + (bits % 8 != 0 ? 1 : 0);
    if (__builtin_add_overflow(sum, bytes, &sum)) return kMost;
  }
  return sum;
}

std::uint64_t BytesOf(const ArrayDescriptor& array) {
  return BytesOf(Array3dDescriptor{.width = array.width,
                                   .height = array.height,
                                   .depth = 0,
                                   .format = array.format,
                                   .channels = array.channels,
                                   .flags = 0});
}

}  // namespace weir::shim::cuda
