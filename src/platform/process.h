// SPDX-License-Identifier: Apache-2.0
// Other processes: identifying them, and noticing their end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "platform/fd.h"

namespace weir::platform {

/// Start time in clock ticks since boot; together with the pid it identifies a process uniquely. kNotFound: no such
/// process.
Result<std::uint64_t> StartTimeOf(pid_t pid);
/// The process that started `pid`, or, after that one has ended, the process that adopted `pid`. kNotFound: no such
/// process.
Result<pid_t> ParentOf(pid_t pid);
/// The pidfd becomes readable when the process ends. kNotFound: it has ended already.
Result<Fd> OpenPidFd(pid_t pid);
/// Raises this process's limit of open files to the maximum. Programs that Spawn starts get the previous limit: some
/// programs close every descriptor below the limit.
void RaiseFileLimit();
/// The number of files that this process may have open.
std::size_t FileLimit();
/// Sets the limit back to the value from before RaiseFileLimit. For a forked child, before it executes another program.
void RestoreFileLimit();
/// Sends a signal to the process of a pidfd; no effect if it has ended.
void SignalPidFd(int process, int signal);
/// The CPUs on which this process may run.
std::vector<int> UsableCpus();
/// Requests quick wake-ups: a nice value of -10 if allowed, and timers that fire at most 1 µs late instead of 50 µs.
/// Returns whether the priority was raised.
bool PreferQuickWakeups();

}  // namespace weir::platform
