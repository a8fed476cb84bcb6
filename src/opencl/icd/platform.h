// SPDX-License-Identifier: Apache-2.0
// The only platform. It outlives connections, because loaders keep its handle across a fork and the executor's death.
#pragma once

#include "opencl/icd/object.h"

namespace weir::opencl::icd {

struct Platform : Object {
  static constexpr Kind kKind = Kind::kPlatform;
  Platform() : Object(kKind) {}
};
Platform& ThePlatform();
inline cl_platform_id PlatformHandle() { return reinterpret_cast<cl_platform_id>(&ThePlatform()); }

}  // namespace weir::opencl::icd
