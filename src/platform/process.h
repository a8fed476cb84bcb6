// SPDX-License-Identifier: Apache-2.0
// Other processes: is it still the same one, and tell me when it ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "platform/fd.h"

namespace weir::platform {

/// Start time in clock ticks since boot: with the pid it names a process for good. kNotFound when there is none.
Result<std::uint64_t> StartTimeOf(pid_t pid);
/// The process that started it, or that took it over when that one ended. kNotFound when there is no such process.
Result<pid_t> ParentOf(pid_t pid);
/// Readable once the process has ended. kNotFound when it has already.
Result<Fd> OpenPidFd(pid_t pid);
/// Raises this process's limit of open files to the most that is allowed. Programs that Spawn starts have the limit
/// from before: some take each descriptor below it for their own to close.
void RaiseFileLimit();
/// Within a child, before it becomes another program.
void RestoreFileLimit();
/// Sends a signal to the process that a pidfd names, if it still lives.
void SignalPidFd(int process, int signal);
/// CPUs this process may run on.
std::vector<int> UsableCpus();
/// Asks for quick wake-ups: a higher priority if that is allowed, and timers without slack. Says whether it got it.
bool PreferQuickWakeups();

}  // namespace weir::platform
