// SPDX-License-Identifier: Apache-2.0
// What a driver's facts about a kernel's argument say of objects other than buffers. Client and executor must agree. A
// program may define types with similar names, so that only the exact names count. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "opencl/channel/cl.h"

namespace weir::opencl {

/// For drivers that report no access qualifier of images.
inline constexpr std::array<std::string_view, 12> kImageTypes{"image1d_t",
                                                              "image1d_array_t",
                                                              "image1d_buffer_t",
                                                              "image2d_t",
                                                              "image2d_array_t",
                                                              "image2d_depth_t",
                                                              "image2d_array_depth_t",
                                                              "image2d_msaa_t",
                                                              "image2d_array_msaa_t",
                                                              "image2d_msaa_depth_t",
                                                              "image2d_array_msaa_depth_t",
                                                              "image3d_t"};

/// `access`: a cl_kernel_arg_access_qualifier; other values mean that the driver reports none.
constexpr bool IsImageArg(cl_kernel_arg_access_qualifier access, std::string_view type) {
  return access == CL_KERNEL_ARG_ACCESS_READ_ONLY || access == CL_KERNEL_ARG_ACCESS_WRITE_ONLY ||
         access == CL_KERNEL_ARG_ACCESS_READ_WRITE || std::ranges::find(kImageTypes, type) != kImageTypes.end();
}

/// A pipe has an access qualifier, too. The type of a driver that names pipes consists of several words.
constexpr bool IsPipeArg(cl_kernel_arg_type_qualifier qualifiers, std::string_view type) {
  return (qualifiers & CL_KERNEL_ARG_TYPE_PIPE) != 0 || type.starts_with("pipe ");
}

}  // namespace weir::opencl
