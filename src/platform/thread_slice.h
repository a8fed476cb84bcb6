// SPDX-License-Identifier: Apache-2.0
// How soon a thread runs after it was woken, where the kernel lets us ask (Linux 6.12 and later).
#pragma once

#include "base/units.h"

namespace weir::platform {

/// Asks for time slices of this length for the calling thread, which changes how soon it runs and not how much: the
/// kernel lets a woken thread with short slices go before a running one with longer ones. Zero: the kernel's default.
/// Needs no privilege; leaves policy, nice value and all else as they are. False: not an ordinary thread, or refused.
/// Older kernels accept it and do nothing.
bool SetThreadSlice(Duration slice);

}  // namespace weir::platform
