// SPDX-License-Identifier: Apache-2.0
// What the tests of streams share: what the shim is told, and the contexts that the driver's double has.
// streams_test.cc has the functions that the streams call.
#pragma once

#include <cstdint>

#include "shim/cuda/driver.h"

namespace weir::shim::cuda {

inline std::int64_t reported_ns = 0;
inline unsigned reported_made = 0, reported_known = 0;
inline std::int64_t settled_ns = 0;  // of it, what a question to settle has charged
inline unsigned used_devices = 0;

/// The green context of the test, if it makes one, and the primary context, which owns it.
inline CudaHandle green_context = nullptr, primary_context = nullptr;

inline constexpr double kUs = 1e3, kMs = 1e6;

}  // namespace weir::shim::cuda
