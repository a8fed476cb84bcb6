// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "opencl/icd/context.h"

namespace weir::opencl::icd {

struct Sampler : Object {
  static constexpr Kind kKind = Kind::kSampler;
  explicit Sampler(Context& of) : Object(kKind, of.link), context(&of) {}
  static void End(Sampler* sampler);

  Ref<Context> context;
  cl_bool normalized = CL_TRUE;
  cl_addressing_mode addressing = CL_ADDRESS_CLAMP;
  cl_filter_mode filter = CL_FILTER_NEAREST;
  std::vector<cl_sampler_properties> given;
};

}  // namespace weir::opencl::icd
