// SPDX-License-Identifier: Apache-2.0
// Functions of the API: arrays. They take room on the device; nothing reads or writes them.
#include <algorithm>

#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

/// CUDA_ARRAY_DESCRIPTOR and CUDA_ARRAY3D_DESCRIPTOR.
struct Extent2d {
  std::size_t width, height;
  int format;
  unsigned channels;
};
struct Extent3d {
  std::size_t width, height, depth;
  int format;
  unsigned channels, flags;
};

/// Bytes of one channel of a texel; 0: a format that the double does not have.
std::size_t BytesOfFormat(int format) {
  switch (format) {
    case 0x01:
    case 0x08: return 1;  // 8 bits
    case 0x02:
    case 0x09:
    case 0x10: return 2;  // 16 bits
    case 0x03:
    case 0x0a:
    case 0x20: return 4;  // 32 bits
    default: return 0;
  }
}

Result Create(Handle* array, const Extent3d& extent, unsigned levels) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    constexpr std::size_t kMost = 65'536;  // of each extent, so that the products below can't overflow
    const std::size_t texel = BytesOfFormat(extent.format) * extent.channels;
    if (array == nullptr || texel == 0 || extent.channels > 4 || extent.width == 0 || levels == 0 || levels > 17)
      return kInvalidValue;
    if (extent.flags != 0) return kNotSupported;
    if (extent.width > kMost || extent.height > kMost || extent.depth > 16'384) return kInvalidValue;
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    }
    std::uint64_t bytes = 0;
    for (unsigned level = 0; level < levels; ++level)
      bytes += texel * std::max<std::size_t>(extent.width >> level, 1) *
               std::max<std::size_t>(extent.height >> level, 1) * std::max<std::size_t>(extent.depth >> level, 1);
    Pointer made = 0;
    const Result result = driver.Allocate(context, Driver::Kind::kArray, bytes, made);
    if (result == kSuccess) *array = reinterpret_cast<Handle>(static_cast<std::uintptr_t>(made));
    return result;
  });
}

Result Destroy(Handle array) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    return driver.Free(context, Driver::Kind::kArray, static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(array)));
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
WEIR_EXPORT Result cuArrayCreate_v2(Handle* array, const Extent2d* extent) {
  if (extent == nullptr) return kInvalidValue;
  return Create(array, {extent->width, extent->height, 0, extent->format, extent->channels, 0}, 1);
}

WEIR_EXPORT Result cuArray3DCreate_v2(Handle* array, const Extent3d* extent) {
  return extent == nullptr ? kInvalidValue : Create(array, *extent, 1);
}

WEIR_EXPORT Result cuMipmappedArrayCreate(Handle* array, const Extent3d* extent, unsigned levels) {
  return extent == nullptr ? kInvalidValue : Create(array, *extent, levels);
}

WEIR_EXPORT Result cuArrayDestroy(Handle array) { return Destroy(array); }
WEIR_EXPORT Result cuMipmappedArrayDestroy(Handle array) { return Destroy(array); }
// NOLINTEND(readability-identifier-naming)
