// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

#include "shim/cuda/not_cancelled.h"

namespace weir::shim::cuda {

/// Runs code of Weir's in a thread of the program. Lack of host memory there does not end the program; the memory in
/// question is then not counted.
template <typename Body>
void Aside(Body body) noexcept {
  const int error_number = errno;
  const NotCancelled not_cancelled;
  try {
    body();
  } catch (...) {
  }
  errno = error_number;
}

}  // namespace weir::shim::cuda
