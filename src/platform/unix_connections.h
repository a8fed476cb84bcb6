// SPDX-License-Identifier: Apache-2.0
// Which connections of another process still have a living other end.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace weir::platform {

/// Whether a connected Unix socket of the process, other than its standard input and outputs, has a peer that has not
/// closed it. kNotFound: no such process. Other errors: this process may not look at that one, or the kernel has no
/// socket diagnosis.
Result<bool> HasOpenUnixConnection(pid_t pid);

}  // namespace weir::platform
