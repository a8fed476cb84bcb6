// SPDX-License-Identifier: Apache-2.0
// Which context owns what is made in a context.
#pragma once

#include "shim/cuda/driver.h"

namespace weir::shim::cuda {

/// Null: the thread has none.
inline CudaHandle CurrentContext() {
  CudaHandle context = nullptr;
  return Driver<CudaResult(CudaHandle*)>(kCall_cuCtxGetCurrent)(&context) == kSuccess ? context : nullptr;
}

/// The context itself; of a green one the primary context of its device, whose memory and events a green context uses.
CudaHandle OwnerOf(CudaHandle context);

}  // namespace weir::shim::cuda
