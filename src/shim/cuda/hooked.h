// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir::shim::cuda {

/// Weir's function in place of one of the driver's; the driver's own if Weir does not hook it.
void* InPlaceOf(void* function);

}  // namespace weir::shim::cuda
