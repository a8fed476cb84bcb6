// SPDX-License-Identifier: Apache-2.0
// Where the memory of pools is.
#pragma once

#include "shim/cuda/driver.h"

namespace weir::shim::cuda {

/// Whether the pool's memory is the host's. Null: the pool of a stream's device.
bool IsHostPool(CudaHandle pool);

}  // namespace weir::shim::cuda
