// SPDX-License-Identifier: Apache-2.0
// The home folder of an executor that runs as another user than the daemon. Drivers keep kernels that they have
// compiled there. The daemon's own home is closed to that user, and PoCL has no device without such a folder.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::daemon {

/// `own`, if it is a folder that belongs to the user. Otherwise `fallback`, which is made for that user, with mode
/// 0700. kIo: it can't be made, or it is another user's already.
Result<std::string> HomeFolder(uid_t uid, gid_t gid, const std::string& own, const std::string& fallback);

/// The environment (NAME=VALUE) of an executor of `uid`. Empty if it runs as this process does. The fallback is
/// `run_dir`/home/VGPU.UID: a vGPU of that name that had another owner had another folder.
Result<std::vector<std::string>> HomeEnvironment(uid_t uid, const std::string& run_dir, const std::string& vgpu);

}  // namespace weir::daemon
