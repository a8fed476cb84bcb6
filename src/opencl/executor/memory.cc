// SPDX-License-Identifier: Apache-2.0
// Device memory: allocated at its first use, returned to the quota when the driver has freed it.
#include <utility>

#include "opencl/executor/objects.h"

namespace weir::opencl {

Memory::~Memory() {
  if (stored) {
    // Another thread may still pin or move the object. Its destructor releases it, and then reports `gone`.
    stored->gone = std::move(gone);
  } else {
    ReleaseAndTell(cl, native, std::move(gone));
  }
}

}  // namespace weir::opencl
