// SPDX-License-Identifier: Apache-2.0
// Device memory: allocated at its first use, returned to the quota when the driver has freed it.
#include <utility>

#include "opencl/executor/objects.h"

namespace weir::opencl {

Memory::~Memory() {
  if (stored) {
    // The thread that has pinned or moves it drops the last reference.
    stored->gone = std::move(gone);
  } else {
    ReleaseAndTell(cl, native, std::move(gone));
  }
}

}  // namespace weir::opencl
