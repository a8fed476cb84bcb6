// SPDX-License-Identifier: Apache-2.0
// Folders that one daemon uses alone: its sockets' and its state's. The lock ends with the process, also by a crash.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/fd.h"

namespace weir::daemon {

/// Locks FOLDER/lock, which holds this process's id for messages. kBusy: another process has it. `who` tells people
/// what that process does ("a node daemon (process 12) serves"), `advice` what to do.
Result<platform::Fd> LockFolder(const std::string& folder, const std::string& who, const std::string& advice);

/// Locks the run folder. Where a private daemon without vGPUs has it (see `weir run`), that one is ended first, unless
/// the caller is private too.
Result<platform::Fd> LockRunFolder(const std::string& run_dir, const std::string& control, bool is_private);

}  // namespace weir::daemon
