// SPDX-License-Identifier: Apache-2.0
// Sets how soon a thread runs after it was woken, on Linux 6.12 and later.
#pragma once

#include "base/units.h"

namespace weir::platform {

/// Requests time slices of this length for the calling thread. This changes how soon it runs, not how much: a woken
/// thread with short slices preempts a running one with longer slices. Zero: the kernel's default. Needs no privilege;
/// policy and nice value are unchanged. False: not an ordinary thread, or refused. Older kernels accept the request
/// without an effect.
bool SetThreadSlice(Duration slice);

}  // namespace weir::platform
