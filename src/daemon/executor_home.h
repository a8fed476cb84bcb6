// SPDX-License-Identifier: Apache-2.0
// The home folder of an executor that runs as a different user than the daemon. Drivers cache compiled kernels there.
// That user can't read the daemon's own home, and PoCL finds no device without a home folder.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::daemon {

/// Returns `own` if it is a folder that belongs to the user. Otherwise makes `fallback` for that user with mode 0700.
/// kIo: `fallback` can't be made, or it belongs to another user.
Result<std::string> HomeFolder(uid_t uid, gid_t gid, const std::string& own, const std::string& fallback);

/// The environment (NAME=VALUE) of an executor of `uid`; empty if it runs as this process's user. The fallback folder
/// is `run_dir`/home/VGPU.UID, so that a later vGPU with the same name and another owner gets another folder.
Result<std::vector<std::string>> HomeEnvironment(uid_t uid, const std::string& run_dir, const std::string& vgpu);

}  // namespace weir::daemon
