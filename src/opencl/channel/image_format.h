// SPDX-License-Identifier: Apache-2.0
// The memory size of an image's element.
#pragma once

#include <cstddef>

#include "opencl/channel/cl.h"

namespace weir::opencl {

/// The bytes of one element of an image (OpenCL 1.2, tables 5.6 and 5.7); 0: unknown format.
inline std::size_t ElementBytes(const cl_image_format& format) {
  std::size_t channels = 0;
  switch (format.image_channel_order) {
    case CL_R:
    case CL_A:
    case CL_Rx:
    case CL_INTENSITY:
    case CL_LUMINANCE:
    case CL_DEPTH: channels = 1; break;
    case CL_RG:
    case CL_RA:
    case CL_RGx: channels = 2; break;
    case CL_RGB:
    case CL_RGBx:
    case CL_sRGB: channels = 3; break;
    case CL_RGBA:
    case CL_BGRA:
    case CL_ARGB:
    case CL_ABGR:
    case CL_sRGBx:
    case CL_sRGBA:
    case CL_sBGRA: channels = 4; break;
    default: return 0;
  }
  switch (format.image_channel_data_type) {
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8: return channels;
    case CL_SNORM_INT16:
    case CL_UNORM_INT16:
    case CL_SIGNED_INT16:
    case CL_UNSIGNED_INT16:
    case CL_HALF_FLOAT: return 2 * channels;
    case CL_SIGNED_INT32:
    case CL_UNSIGNED_INT32:
    case CL_FLOAT: return 4 * channels;
    case CL_UNORM_SHORT_565:
    case CL_UNORM_SHORT_555: return 2;
    case CL_UNORM_INT_101010:
    case CL_UNORM_INT_101010_2: return 4;
    default: return 0;
  }
}

}  // namespace weir::opencl
