// SPDX-License-Identifier: Apache-2.0
// How much device memory CUDA's arrays take, by their descriptors. The driver's padding is not known and not counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::shim::cuda {

/// CUDA_ARRAY_DESCRIPTOR.
struct ArrayDescriptor {
  std::size_t width, height;
  int format;
  unsigned channels;
};

/// CUDA_ARRAY3D_DESCRIPTOR.
struct Array3dDescriptor {
  std::size_t width, height, depth;
  int format;
  unsigned channels;
  unsigned flags;
};

/// Bytes of an array, or of `levels` levels of a mipmapped array. An extent of 0 counts as 1. Zero for arrays to which
/// the program maps memory of its own. The largest number if the product overflows.
std::uint64_t BytesOf(const Array3dDescriptor& array, unsigned levels = 1);
std::uint64_t BytesOf(const ArrayDescriptor& array);

}  // namespace weir::shim::cuda
