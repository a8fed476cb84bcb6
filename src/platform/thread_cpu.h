// SPDX-License-Identifier: Apache-2.0
// CPU time of single threads of this process, and on which CPUs they run: the clock of software devices.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weir::platform {

/// Bit n of word n / 64: CPU n.
using CpuSet = std::array<std::uint64_t, 16>;

/// CPU time that a thread of this process has used, ns. Nothing when there is no such thread.
std::optional<std::int64_t> ThreadCpuNs(pid_t tid);

/// The threads of this process.
std::vector<pid_t> ThreadsOfThisProcess();
/// Those whose name begins with `prefix`.
std::vector<pid_t> ThreadsOfThisProcess(std::string_view prefix);

/// Keeps a thread on `cpus`, within what it was allowed before: a narrower choice stays, and one that would leave it
/// nothing is not made.
void KeepThreadOn(pid_t tid, const CpuSet& cpus);

}  // namespace weir::platform
