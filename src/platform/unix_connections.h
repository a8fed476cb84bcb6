// SPDX-License-Identifier: Apache-2.0
// Which connections of another process still have a living other end.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace weir::platform {

/// Whether the process has a connection that was accepted at the Unix socket `path` and whose other end has not been
/// closed. kNotFound: no such process. Other errors: this process may not look at that one, or the kernel has no socket
/// diagnosis.
Result<bool> HasClientAt(const std::string& path, pid_t pid);

}  // namespace weir::platform
